package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

func nodePortService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// written are the addresses that are written down as taken, with their owners.
func written(t *testing.T, c kubernetes.Interface) []string {
	t.Helper()
	list, err := c.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, ip := range list.Items {
		out = append(out, ip.Name+" "+ip.Spec.ParentRef.Name)
	}
	slices.Sort(out)
	return out
}

// TestAllocationUnderRaces lets many clients create, change and delete services in a range that is too small for them,
// and looks at what is written down in the end, also by the server's next life: what the services have, and nothing
// else.
func TestAllocationUnderRaces(t *testing.T) {
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	small := func(c *options.Config) {
		c.Store = store
		// six addresses, one for kubernetes
		c.ServiceClusterIPRange, c.ServiceNodePortRange = "10.96.0.0/29", "30000-30003"
	}
	first := start(t, small)
	var wg sync.WaitGroup
	for i := range 8 {
		client := first.client(t)
		wg.Go(func() { churn(t, client, fmt.Sprint("s", i)) })
	}
	wg.Wait()
	want, _ := has(t, first.client(t))
	if got := written(t, first.client(t)); !slices.Equal(got, want) {
		t.Errorf("%v are taken, services have %v", got, want)
	}
	first.stop()

	client := start(t, small).client(t)
	services := client.CoreV1().Services("default")
	if now, _ := has(t, client); !slices.Equal(now, want) || !slices.Equal(written(t, client), want) {
		t.Errorf("after a restart services have %v, and had %v", now, want)
	}
	// All addresses and ports that are free can be had, and no more.
	_, ports := has(t, client)
	for i := ports; i < 4; i++ {
		if _, err := services.Create(t.Context(), nodePortService(fmt.Sprint("last", i)),
			metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := services.Create(t.Context(), nodePortService("more"),
		metav1.CreateOptions{}); !apierrors.IsInternalError(err) ||
		!strings.Contains(err.Error(), "failed to allocate a nodePort: range is full") {
		t.Error(err)
	}
	now, ports := has(t, client)
	if got := written(t, client); ports != 4 || len(now) != 5 || !slices.Equal(now, got) {
		t.Errorf("%v are taken, services have %v and %d ports", got, now, ports)
	}
}

// TestRepairsAreTold: who looks at a service sees that its address was not written down.
func TestRepairsAreTold(t *testing.T) {
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	shared := func(c *options.Config) { c.Store = store }
	first := start(t, shared)
	client := first.client(t)
	s, err := client.CoreV1().Services("default").Create(t.Context(), nodePortService("lost"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.NetworkingV1().IPAddresses().Delete(t.Context(), s.Spec.ClusterIP,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	first.stop()

	client = start(t, shared).client(t)
	var found eventsv1.Event
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			list, err := client.EventsV1().Events("default").List(ctx,
				metav1.ListOptions{FieldSelector: "reason=ClusterIPNotAllocated"})
			if err != nil || len(list.Items) == 0 {
				return false, err
			}
			found = list.Items[0]
			return true, nil
		}); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Cluster IP [IPv4]: %s is not allocated; repairing", s.Spec.ClusterIP); found.Note != want ||
		found.Type != "Warning" ||
		found.Regarding.Kind != "Service" || found.Regarding.Name != "lost" || found.Regarding.UID != s.UID ||
		found.ReportingController != "ipallocator-repair-controller" || found.Action != "ClusterIPAllocation" {
		t.Errorf("%+v", found)
	}
}

// churn creates services, as far as there is room, and deletes most of them, some as another type.
func churn(t *testing.T, client kubernetes.Interface, prefix string) {
	services := client.CoreV1().Services("default")
	for r := range 8 {
		name := fmt.Sprint(prefix, "-", r)
		s, err := services.Create(t.Context(), nodePortService(name), metav1.CreateOptions{})
		if err != nil {
			if !strings.Contains(err.Error(), "range is full") {
				t.Error(err)
			}
			continue
		}
		if r%2 == 0 {
			s.Spec.Type = corev1.ServiceTypeClusterIP
			if _, err := services.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		}
		if r == 7 {
			continue // stays
		}
		if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// has are the addresses of all services, with their owners, and the number of their ports, which differ.
func has(t *testing.T, client kubernetes.Interface) (addresses []string, ports int) {
	t.Helper()
	list, err := client.CoreV1().Services("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	taken := map[int32]string{}
	for _, s := range list.Items {
		addresses = append(addresses, s.Spec.ClusterIP+" "+s.Name)
		for _, p := range s.Spec.Ports {
			if p.NodePort == 0 {
				continue
			}
			if other := taken[p.NodePort]; other != "" {
				t.Errorf("%s and %s have port %d", s.Name, other, p.NodePort)
			}
			taken[p.NodePort] = s.Name
		}
	}
	slices.Sort(addresses)
	return addresses, len(taken)
}

// What validation and admission refuse has been given addresses and ports already: these go back.
func TestRefusedServicesTakeNothing(t *testing.T) {
	client := start(t).client(t)
	services := client.CoreV1().Services("default")
	bad := nodePortService("bad")
	bad.Spec.SessionAffinity = "x"
	if _, err := services.Create(t.Context(), bad, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Error(err)
	}
	if _, err := services.Create(t.Context(), nodePortService("good"),
		metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		t.Error(err)
	}
	if got := written(t, client); len(got) != 1 {
		t.Error(got)
	}
}

// TestServiceWithoutName: nothing can be given to it, and the answer has a place for the address that it would have
// got.
func TestServiceWithoutName(t *testing.T) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	_, err := start(t).client(t).CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{})
	const want = `Service "" is invalid: spec.clusterIPs: Invalid value: [""]: failed to allocate IP: IPAddress.networking.k8s.io `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
