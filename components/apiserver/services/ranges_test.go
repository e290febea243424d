package services

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

func onPort(name string, port int32) *corev1.Service {
	return service(name, corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80, NodePort: port})
}

// refused tells why no port is given to a service.
func (f *fixture) refused(t *testing.T, s *corev1.Service) error {
	t.Helper()
	_, err := f.Allocate(t.Context(), s, nil, false)
	if err == nil {
		t.Fatalf("%s was given its port", s.Name)
	}
	return err
}

// TestNoPortsWithoutBitmap: as long as it isn't written down which ports are in use, none is given, as it may be
// another service's.
func TestNoPortsWithoutBitmap(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	kept := onPort("kept", 30001)
	f.write(t, kept, nil)
	store := memory.New(clock.RealClock{})
	defer store.Close()
	f.Ranges.(*StoredRange).Store = store
	const want = "cannot allocate resources of type servicenodeportallocations at this time"
	if err := f.refused(t, onPort("twin", 30001)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("a port: %v", err)
	}
	if err := f.refused(t, onPort("any", 0)); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("any port: %v", err)
	}
	if err := f.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.refused(t, onPort("twin", 30001)); !strings.Contains(err.Error(), errPortTaken.Error()) {
		t.Errorf("a port that is in use: %v", err)
	}
	// though it was Prepare that saw it
	f.expectTold(t, "Warning PortNotAllocated Port 30001 is not allocated; repairing")
	f.expectTold(t)
}

// TestOtherRange: a bitmap of another range gives no ports, and is made one of ours with what both ranges have.
func TestOtherRange(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	f.write(t, onPort("low", 30001), nil)
	f.write(t, onPort("high", 30060), nil)
	lost := onPort("lost", 30070)
	f.write(t, lost, nil)
	f.objects.Remove(services, "default", "lost")
	stored := f.Ranges.(*StoredRange)
	ours := utilnet.PortRange{Base: 30050, Size: 100}
	stored.Range, f.FirstNodePort, f.NodePorts = ours, ours.Base, ours.Size
	f.ports.first, f.ports.size = ours.Base, ours.Size

	if err := f.refused(t, onPort("new", 30080)); !strings.Contains(err.Error(), errOtherRange.Error()) {
		t.Errorf("before: %v", err)
	}
	if err := f.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for port, fails := range map[int32]bool{30060: true, 30070: true, 30080: false} {
		if _, err := f.Allocate(t.Context(), onPort("new", port), nil, false); (err != nil) != fails {
			t.Errorf("afterwards %d: %v", port, err)
		}
	}
	if told := f.told(t); !slices.Contains(told,
		"Warning PortOutOfRange Port 30001 is not within the port range 30050-30149; please recreate service") {
		t.Errorf("told %q", told)
	}
}

// TestPortErrorsAreCounted by their type, in each repair.
func TestPortErrorsAreCounted(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	lost := onPort("lost", 30001)
	f.write(t, lost, nil)
	f.objects.Remove(services, "default", "lost")
	for _, name := range []string{"a", "b"} {
		f.objects.Put(services, onPort(name, 30002))
	}
	f.objects.Put(services, onPort("far", 31000))
	for range looksUntilFree {
		f.told(t)
	}
	for kind, want := range map[string]float64{"repair": 1, "leak": 1, "duplicate": 3, "outOfRange": 3} {
		if got := testutil.ToFloat64(f.metrics.portRepairs.WithLabelValues(kind)); got != want {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
}
