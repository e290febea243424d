package services

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// told repairs, and returns what was told of it, sorted.
func (f *fixture) told(t *testing.T) []string {
	t.Helper()
	recorder := events.NewFakeRecorder(100)
	f.Allocator.events = Events{recorder, recorder}
	if err := f.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(recorder.Events)
	var out []string
	for text := range recorder.Events {
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func (f *fixture) expectTold(t *testing.T, want ...string) {
	t.Helper()
	if got := f.told(t); !slices.Equal(got, want) {
		t.Errorf("told\n%q, want\n%q", got, want)
	}
}

// TestRepairsAreTold: a Warning for each thing that isn't in order, of who can do something about it.
func TestRepairsAreTold(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	kept := service("kept", corev1.ServiceTypeNodePort,
		corev1.ServicePort{Port: 53, NodePort: 30001, Protocol: "TCP"},
		corev1.ServicePort{Port: 53, NodePort: 30001, Protocol: "UDP"})
	kept.Spec.ClusterIP, kept.Spec.ClusterIPs = "10.96.0.5", []string{"10.96.0.5"}
	f.write(t, kept, nil)
	f.expectTold(t)

	// The address in use has no IPAddress.
	f.objects.Remove(ipAddresses, "", "10.96.0.5")
	store := memory.New(clock.RealClock{})
	defer store.Close()
	f.Ranges.(*StoredRange).Store = store
	f.expectTold(t, "Warning ClusterIPNotAllocated Cluster IP [IPv4]: 10.96.0.5 is not allocated; repairing",
		"Warning PortNotAllocated Port 30001 is not allocated; repairing")
	f.expectTold(t)

	// Others use the same.
	twin := kept.DeepCopy()
	twin.Name = "twin"
	f.objects.Put(services, twin)
	f.expectTold(t,
		"Warning ClusterIPAlreadyAllocated Cluster IP [IPv4]:10.96.0.5 was assigned to multiple services; please recreate "+
			"service",
		"Warning PortAlreadyAllocated Port 30001 was assigned to multiple services; please recreate service")
	f.objects.Remove(services, "default", "twin")

	// What is used is in no range, of those that are configured and those that there are.
	far := service("far", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80, NodePort: 200})
	far.Spec.ClusterIP, far.Spec.ClusterIPs = "10.97.0.5", []string{"10.97.0.5"}
	f.objects.Put(services, far)
	f.expectTold(t,
		"Warning ClusterIPOutOfRange Cluster IP [IPv4]: 10.97.0.5 is not within any configured Service CIDR; please "+
			"recreate service",
		"Warning PortOutOfRange Port 200 is not within the port range 30000-30099; please recreate service")
	f.objects.Put(serviceCIDRs,
		&networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.97.0.0/24"}}})
	f.expectTold(t, "Warning ClusterIPNotAllocated Cluster IP [IPv4]: 10.97.0.5 is not allocated; repairing",
		"Warning PortOutOfRange Port 200 is not within the port range 30000-30099; please recreate service")
	f.objects.Remove(services, "default", "far")
	f.objects.Remove(ipAddresses, "", "10.97.0.5")

	// What is written down isn't used.
	f.objects.Put(ipAddresses, addressObject(netip.MustParseAddr("10.96.0.7"), kept))
	f.objects.Put(ipAddresses, addressObject(netip.MustParseAddr("10.96.0.8"), far))
	changed := addressObject(netip.MustParseAddr("10.96.0.9"), far).(*networkingv1.IPAddress)
	changed.Spec.ParentRef = &networkingv1.ParentReference{Group: "gateway", Resource: "gateways", Name: "g"}
	f.objects.Put(ipAddresses, changed)
	f.expectTold(t,
		"Warning IPAddressNotAllocated IPAddress 10.96.0.9 appears to have been modified, not referencing a Service "+
			"&ParentReference{Group:gateway,Resource:gateways,Namespace:,Name:g,}: cleaning up",
		"Warning IPAddressNotAllocated IPAddress: 10.96.0.8 for Service default/far appears to have leaked: cleaning up",
		"Warning IPAddressWrongReference IPAddress: 10.96.0.7 for Service default/kept has a wrong reference; cleaning up")
	f.expectTold(t)
}

// TestWrongReferencesAreRepaired: an address that a service uses is written down as that service's, whatever was made
// of it.
func TestWrongReferencesAreRepaired(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	kept := service("kept", corev1.ServiceTypeClusterIP)
	kept.Spec.ClusterIP, kept.Spec.ClusterIPs = "10.96.0.5", []string{"10.96.0.5"}
	f.write(t, kept, nil)
	other := service("other", corev1.ServiceTypeClusterIP)
	other.Spec.ClusterIP, other.Spec.ClusterIPs = "10.96.0.6", []string{"10.96.0.6"}
	f.write(t, other, nil)
	wrong := "Warning ClusterIPNotAllocated the ClusterIP [IPv4]: 10.96.0.5 for Service default/kept has a wrong " +
		"reference; repairing"
	ref := func(group, resource, name string) *networkingv1.ParentReference {
		return &networkingv1.ParentReference{Group: group, Resource: resource, Namespace: "default", Name: name}
	}
	for name, c := range map[string]struct {
		change func(*networkingv1.IPAddress)
		passes [][]string
	}{
		"another kind": {func(a *networkingv1.IPAddress) { a.Spec.ParentRef = ref("gateway", "gateways", "g") },
			[][]string{{wrong}}},
		"nothing": {func(a *networkingv1.IPAddress) { a.Spec.ParentRef = nil }, [][]string{{wrong}}},
		"who is gone": {func(a *networkingv1.IPAddress) { a.Spec.ParentRef = ref("", "services", "gone") },
			[][]string{{wrong}}},
		"another family": {func(a *networkingv1.IPAddress) { a.Labels[networkingv1.LabelIPAddressFamily] = "IPv6" },
			[][]string{nil}},
		"nobody's label": {func(a *networkingv1.IPAddress) { a.Labels = nil }, [][]string{nil}},
		"another service": {func(a *networkingv1.IPAddress) { a.Spec.ParentRef = ref("", "services", "other") },
			[][]string{
				{"Warning IPAddressWrongReference IPAddress: 10.96.0.5 for Service default/other has a wrong reference; cleaning " +
					"up"},
				{"Warning ClusterIPNotAllocated Cluster IP [IPv4]: 10.96.0.5 is not allocated; repairing"},
			}},
	} {
		changed := addressObject(netip.MustParseAddr("10.96.0.5"), kept).(*networkingv1.IPAddress)
		c.change(changed)
		f.objects.Put(ipAddresses, changed)
		for _, want := range c.passes {
			f.expectTold(t, want...)
		}
		got, err := objects.As[*networkingv1.IPAddress](f.objects.Get(t.Context(), ipAddresses, "", "10.96.0.5"))
		if err != nil || !marked(got) || !ofService(got.Spec.ParentRef) || got.Spec.ParentRef.Name != "kept" {
			t.Errorf("%s: became %+v, %v", name, got, err)
		}
		f.expectTold(t)
	}
	odd := other.DeepCopy()
	odd.Spec.ClusterIPs = []string{"10.96.0.6", "ten"}
	f.objects.Put(services, odd)
	f.expectTold(t, "Warning ClusterIPNotValid Cluster IP <nil> is not a valid IP; please recreate Service")
}
