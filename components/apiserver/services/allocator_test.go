package services

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/core"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

type fixture struct {
	*Allocator
	objects  *objectstest.Store
	requeued requeued
}

// requeued records what is to be repaired again, and after which time.
type requeued map[item]time.Duration

func (r requeued) Add(what item)                          { r[what] = 0 }
func (r requeued) AddAfter(what item, wait time.Duration) { r[what] = wait }

func newFixture(t *testing.T, ports int, cidrs ...string) *fixture {
	t.Helper()
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	f := &fixture{objects: &objectstest.Store{}}
	c := Config{
		Objects: f.objects, FirstNodePort: 30000, NodePorts: ports,
		Ranges: &StoredRange{Store: store, Key: "/registry/ranges/servicenodeports",
			Range: utilnet.PortRange{Base: 30000, Size: ports}},
	}
	for _, s := range cidrs {
		c.CIDRs = append(c.CIDRs, netip.MustParsePrefix(s))
	}
	var err error
	if f.Allocator, err = New(c); err != nil {
		t.Fatal(err)
	}
	f.requeued = requeued{}
	f.queue = f.requeued
	if err := f.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func service(name string, kind corev1.ServiceType, ports ...corev1.ServicePort) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.ServiceSpec{Type: kind, Ports: ports, Selector: map[string]string{"a": "b"}},
	}
	core.DefaultService(s)
	return s
}

func (f *fixture) write(t *testing.T, new, old *corev1.Service) {
	t.Helper()
	done, err := f.Allocate(context.Background(), new, old, false)
	if err != nil {
		t.Fatal(err)
	}
	done(api.Stored)
	if new != nil {
		f.objects.Put(services, new)
	} else {
		f.objects.Remove(services, old.Namespace, old.Name)
	}
}

func (f *fixture) taken(t *testing.T) (ips, ports int) {
	t.Helper()
	list, err := f.objects.List(context.Background(), ipAddresses, "")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, ip := range list {
		names[ip.GetName()] = true
	}
	bits, err := f.Ranges.Get(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.NodePorts {
		ports += int(bits.Bit(i))
	}
	return len(names), ports
}

func (f *fixture) expect(t *testing.T, ips, ports int) {
	t.Helper()
	if i, p := f.taken(t); i != ips || p != ports {
		t.Errorf("%d addresses and %d ports are taken, want %d and %d", i, p, ips, ports)
	}
}

func TestLifeOfAService(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	s := service("a", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80}, corev1.ServicePort{Port: 81})
	f.write(t, s, nil)
	if s.Spec.ClusterIP == "" || s.Spec.ClusterIPs[0] != s.Spec.ClusterIP || s.Spec.Ports[0].NodePort == 0 ||
		s.Spec.Ports[0].NodePort == s.Spec.Ports[1].NodePort ||
		*s.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		t.Fatalf("%+v", s.Spec)
	}
	f.expect(t, 1, 2)

	// To ClusterIP: the ports go back, the address stays.
	next := s.DeepCopy()
	next.Spec.Type = corev1.ServiceTypeClusterIP
	next.Spec.ExternalTrafficPolicy = ""
	core.PrepareServiceUpdate(next, s)
	f.write(t, next, s)
	f.expect(t, 1, 0)
	if next.Spec.ClusterIP != s.Spec.ClusterIP {
		t.Error("the address changed")
	}
	// To ExternalName: the address goes back too.
	last := next.DeepCopy()
	last.Spec.Type, last.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	core.PrepareServiceUpdate(last, next)
	f.write(t, last, next)
	f.expect(t, 0, 0)
	f.write(t, nil, last)
	f.expect(t, 0, 0)
}

func TestGivenValues(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	a := service("a", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80, NodePort: 30005})
	a.Spec.ClusterIP, a.Spec.ClusterIPs = "10.96.0.10", []string{"10.96.0.10"}
	f.write(t, a, nil)
	for name, change := range map[string]func(s *corev1.Service){
		"address taken":        func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.10" },
		"address out of range": func(s *corev1.Service) { s.Spec.ClusterIP = "10.97.0.1" },
		"network address":      func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.0" },
		"broadcast address":    func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.255" },
		"other family":         func(s *corev1.Service) { s.Spec.ClusterIP = "fd00::1" },
		"port taken":           func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30005 },
		"port out of range":    func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 8080 },
	} {
		s := service("b", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80})
		change(s)
		if s.Spec.ClusterIP != "" {
			s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
		}
		if _, err := f.Allocate(context.Background(), s, nil, false); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.expect(t, 1, 1)
}

func TestFailedWritesLeaveNothing(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	s := service("a", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80})
	done, err := f.Allocate(context.Background(), s, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if s.Spec.ClusterIP == "" || s.Spec.Ports[0].NodePort == 0 {
		t.Error("nothing was given")
	}
	f.expect(t, 1, 1)
	done(api.NotStored)
	f.expect(t, 0, 0)
	if len(f.pendingIPs)+len(f.pendingPorts) != 0 {
		t.Error("something stays pending")
	}
}

// TestUnsureWritesGiveNothingBack: what a write may have stored stays taken until a repair that sees which it was.
func TestUnsureWritesGiveNothingBack(t *testing.T) {
	for _, happened := range []bool{true, false} {
		f := newFixture(t, 100, "10.96.0.0/24")
		s := service("a", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80})
		done, err := f.Allocate(context.Background(), s, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if happened {
			want = 1
			f.objects.Put(services, s)
		}
		done(api.Unsure)
		f.expect(t, 1, 1)
		if len(f.pendingIPs)+len(f.pendingPorts) != 0 {
			t.Error("something stays pending")
		}
		f.Allocator.Clock = clocktesting.NewFakeClock(time.Now().Add(time.Hour)) // past the time that a new address has
		for range 5 {
			if err := f.Repair(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		f.expect(t, want, want)
	}
}

func TestDryRunsTakeNothing(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	taken := service("taken", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80, NodePort: 30005})
	f.write(t, taken, nil)
	dry := func(s *corev1.Service) error {
		done, err := f.Allocate(context.Background(), s, nil, true)
		if err == nil {
			done(api.Stored)
		}
		f.expect(t, 1, 1)
		return err
	}
	s := service("a", corev1.ServiceTypeLoadBalancer, corev1.ServicePort{Port: 80}, corev1.ServicePort{Port: 81})
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	if err := dry(s); err != nil || s.Spec.ClusterIP != "10.96.0.0" || s.Spec.Ports[0].NodePort != 32769 ||
		s.Spec.Ports[1].NodePort != 32770 || s.Spec.HealthCheckNodePort != 32771 {
		t.Errorf("%v: %+v", err, s.Spec)
	}
	s = service("a", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80, NodePort: 30005})
	if err := dry(s); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "provided port is already allocated") {
		t.Error(err)
	}
	s = service("a", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	s.Spec.ClusterIP = "10.97.0.1"
	if err := dry(s); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
		"the provided IP (10.97.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/24") {
		t.Error(err)
	}
}

func TestPortsOfAChange(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	old := service("a", corev1.ServiceTypeNodePort,
		corev1.ServicePort{Name: "a", Port: 80, NodePort: 30001},
		corev1.ServicePort{Name: "b", Port: 81, NodePort: 30002})
	f.write(t, old, nil)

	// Ports are known by their names, whatever else changes, and every protocol gets its own.
	next := service("a", corev1.ServiceTypeNodePort, corev1.ServicePort{Name: "a", Port: 90},
		corev1.ServicePort{Name: "c", Port: 81}, corev1.ServicePort{Name: "u", Port: 81, Protocol: "UDP"})
	f.write(t, next, old)
	if p := next.Spec.Ports; p[0].NodePort != 30001 || p[1].NodePort == p[2].NodePort ||
		next.Spec.ClusterIP != old.Spec.ClusterIP {
		t.Errorf("%+v", next.Spec)
	}
	f.expect(t, 1, 3)

	// One that stays, under another name, isn't given again.
	moved := service("a", corev1.ServiceTypeNodePort,
		corev1.ServicePort{Name: "x", Port: 80, NodePort: 30001}, corev1.ServicePort{Name: "a", Port: 81})
	f.write(t, moved, next)
	if p := moved.Spec.Ports; p[1].NodePort == 0 || p[1].NodePort == 30001 {
		t.Errorf("%+v", p)
	}
	f.expect(t, 1, 2)

	twice := service("a", corev1.ServiceTypeNodePort,
		corev1.ServicePort{Name: "x", Port: 80, NodePort: 30009},
		corev1.ServicePort{Name: "y", Port: 81, NodePort: 30009})
	if _, err := f.Allocate(context.Background(), twice, moved, false); err == nil ||
		err.Error() != "duplicate nodePort: {TCP 30009}" {
		t.Error(err)
	}
	f.expect(t, 1, 2)
}

func TestRangesAddressesComeFrom(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/30") // two hosts
	cidr := func(name, text string, condition ...metav1.Condition) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{text}},
			Status: networkingv1.ServiceCIDRStatus{Conditions: condition},
		}
	}
	ready := func(s metav1.ConditionStatus) metav1.Condition { return metav1.Condition{Type: "Ready", Status: s} }
	give := func(name string) error {
		done, err := f.Allocate(context.Background(),
			service(name, corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80}), nil, false)
		if err == nil {
			done(api.Stored)
		}
		return err
	}
	f.objects.Put(serviceCIDRs, cidr("kubernetes", "10.96.0.0/30", ready(metav1.ConditionTrue)))
	f.objects.Put(serviceCIDRs, cidr("second", "10.97.0.0/30", ready(metav1.ConditionFalse)))
	for i := range 2 {
		if err := give(fmt.Sprint("a", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := give("full"); err == nil ||
		err.Error() != `Internal error occurred: failed to allocate a serviceIP for Service "full": range is full` {
		t.Error(err)
	}
	given := service("given", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	given.Spec.ClusterIP = "10.97.0.1"
	if _, err := f.Allocate(context.Background(), given, nil, false); err == nil ||
		!strings.Contains(err.Error(),
			"failed to allocate IP 10.97.0.1: the provided network does not match the current range") {
		t.Error(err)
	}
	f.objects.Put(serviceCIDRs, cidr("second", "10.97.0.0/30")) // it has no Ready condition
	if err := give("more"); err != nil {
		t.Error(err)
	}
	going := cidr("second", "10.97.0.0/30")
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	f.objects.Put(serviceCIDRs, going)
	if err := give("late"); err == nil {
		t.Error("a range that is going gave an address")
	}
}

func TestEndpointsGoWithTheirService(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	s := service("a", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	f.write(t, s, nil)
	//lint:ignore SA1019 they are kept as long as they are served
	f.objects.Put(endpoints, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	f.write(t, nil, s)
	if _, err := f.objects.Get(context.Background(), endpoints, "default", "a"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func TestDualStack(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24", "fd00::/112")
	prefer := corev1.IPFamilyPolicyPreferDualStack
	s := service("a", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	s.Spec.IPFamilyPolicy = &prefer
	f.write(t, s, nil)
	if len(s.Spec.ClusterIPs) != 2 || len(s.Spec.IPFamilies) != 2 || s.Spec.IPFamilies[0] != corev1.IPv4Protocol {
		t.Fatalf("%+v", s.Spec)
	}
	single := corev1.IPFamilyPolicySingleStack
	next := s.DeepCopy()
	next.Spec.IPFamilyPolicy = &single
	f.write(t, next, s)
	if len(next.Spec.ClusterIPs) != 1 || len(next.Spec.IPFamilies) != 1 {
		t.Fatalf("%+v", next.Spec)
	}
	f.expect(t, 1, 0)

	f = newFixture(t, 100, "10.96.0.0/24")
	require := corev1.IPFamilyPolicyRequireDualStack
	s = service("a", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	s.Spec.IPFamilyPolicy = &require
	if _, err := f.Allocate(context.Background(), s, nil, false); !apierrors.IsInvalid(err) {
		t.Error(err)
	}
}

func TestHeadless(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	s := service("a", corev1.ServiceTypeClusterIP)
	s.Spec.ClusterIP = corev1.ClusterIPNone
	f.write(t, s, nil)
	if s.Spec.ClusterIPs[0] != corev1.ClusterIPNone || s.Spec.IPFamilies[0] != corev1.IPv4Protocol {
		t.Errorf("%+v", s.Spec)
	}
	f.expect(t, 0, 0)
}

func TestRacesNeverGiveTwice(t *testing.T) {
	const n = 14 // as many as the range has hosts
	f := newFixture(t, n, "10.96.0.0/28")
	var wg sync.WaitGroup
	all := make([]*corev1.Service, n)
	for i := range n {
		wg.Go(func() {
			s := service(fmt.Sprint("s", i), corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80})
			done, err := f.Allocate(context.Background(), s, nil, false)
			if err != nil {
				t.Error(err)
				return
			}
			done(api.Stored)
			all[i] = s
		})
	}
	wg.Wait()
	ips, ports := map[string]bool{}, map[int32]bool{}
	for _, s := range all {
		if s != nil {
			ips[s.Spec.ClusterIP], ports[s.Spec.Ports[0].NodePort] = true, true
		}
	}
	if len(ips) != n || len(ports) != n {
		t.Errorf("%d addresses and %d ports for %d services", len(ips), len(ports), n)
	}
	s := service("more", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	if _, err := f.Allocate(context.Background(), s, nil, false); err == nil {
		t.Error("a full range gave an address")
	}
}

func TestRepair(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	kept := service("kept", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80})
	f.write(t, kept, nil)
	lost := service("lost", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80})
	f.write(t, lost, nil)
	f.objects.Remove(services, "default", "lost") // as a crash leaves it
	f.expect(t, 2, 2)
	for _, ports := range []int{2, 2, 1} {
		if err := f.Repair(context.Background()); err != nil {
			t.Fatal(err)
		}
		f.expect(t, 1, ports)
	}

	// Addresses that services use but have no IPAddress get one again.
	f.objects.Remove(ipAddresses, "", kept.Spec.ClusterIP)
	if err := f.Ranges.(*StoredRange).Store.Close(); err != nil {
		t.Fatal(err)
	}
	store := memory.New(clock.RealClock{})
	defer store.Close()
	f.Ranges.(*StoredRange).Store = store
	f.expect(t, 0, 0)
	if err := f.Repair(context.Background()); err != nil {
		t.Fatal(err)
	}
	f.expect(t, 1, 1)
}

func TestSharedPorts(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	s := service("dns", corev1.ServiceTypeNodePort,
		corev1.ServicePort{Port: 53, Protocol: "TCP"}, corev1.ServicePort{Port: 53, Protocol: "UDP"})
	f.write(t, s, nil)
	if s.Spec.Ports[0].NodePort != s.Spec.Ports[1].NodePort {
		t.Errorf("%+v", s.Spec.Ports)
	}
	f.expect(t, 1, 1)
	f.write(t, nil, s)
	f.expect(t, 0, 0)
}

func TestHostsOfARange(t *testing.T) {
	for text, want := range map[string]struct {
		n           uint64
		first, last string
	}{
		"10.0.0.0/24": {254, "10.0.0.1", "10.0.0.254"},
		"10.0.0.0/30": {2, "10.0.0.1", "10.0.0.2"},
		"fd00::/120":  {255, "fd00::1", "fd00::ff"},
		"fd00::/112":  {65535, "fd00::1", "fd00::ffff"},
	} {
		p := netip.MustParsePrefix(text)
		if got := hosts(p); got != want.n || at(p, 0).String() != want.first || at(p, got-1).String() != want.last {
			t.Errorf("%s: %d hosts from %s to %s", text, got, at(p, 0), at(p, got-1))
		}
		for i := range min(want.n, 300) {
			if !usable(p, at(p, i)) {
				t.Errorf("%s: %s is not usable", text, at(p, i))
			}
		}
		if usable(p, p.Addr()) {
			t.Errorf("%s: the network's address is usable", text)
		}
	}
}

// TestOnlyOwnAddressesAreGivenBack: what a repair took and another service was given meanwhile is no longer the first
// one's.
func TestOnlyOwnAddressesAreGivenBack(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	a := service("a", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	f.write(t, a, nil)
	f.objects.Remove(ipAddresses, "", a.Spec.ClusterIP)
	b := service("b", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	b.Spec.ClusterIP, b.Spec.ClusterIPs = a.Spec.ClusterIP, a.Spec.ClusterIPs
	f.write(t, b, nil)
	f.write(t, nil, a)
	f.expect(t, 1, 0)
	f.write(t, nil, b)
	f.expect(t, 0, 0)
}
