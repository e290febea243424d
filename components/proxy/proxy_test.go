package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/conntrack"
	"quintet.dev/quintet/internal/nftcheck"
	"quintet.dev/quintet/internal/nftcheck/nftchecktest"
)

// noFlows is a kernel that tracks nothing.
type noFlows struct{}

func (noFlows) Delete(v1.IPFamily, func(conntrack.Flow) bool) (int, error) { return 0, nil }

func node() *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "me"},
		Status:     v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}},
	}
}

func service(name, ip string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			Ports: []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP}},
		},
	}
}

func slice(service, ip string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To(""), Port: ptr.To[int32](8080), Protocol: ptr.To(v1.ProtocolTCP),
		}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}}},
	}
}

// running is a Proxy over fakes.
type running struct {
	t      *testing.T
	client *fake.Clientset
	nft    *knftables.Fake
	proxy  *Proxy
}

// start runs a Proxy with a change of its configuration.
func start(t *testing.T, change ...func(*Config)) *running {
	t.Helper()
	before := goleak.IgnoreCurrent()
	r := &running{
		t: t, client: fake.NewClientset(node(), service("a", "10.96.0.7"), slice("a", "10.244.1.2")),
		nft: knftables.NewFake(knftables.IPv4Family, "kube-proxy"),
	}
	config := NewConfig()
	config.Client, config.Flows, config.HostnameOverride = r.client, noFlows{}, "me"
	config.HealthzAddress, config.MetricsAddress, config.MinSyncPeriod = "", "", 0
	config.Conntrack = Conntrack{}
	config.Open = func(family v1.IPFamily) (knftables.Interface, nftcheck.Kernel, error) {
		if family == v1.IPv6Protocol {
			return nil, nil, errors.New("this machine has no IPv6")
		}
		return r.nft, &nftchecktest.Kernel{Fake: r.nft}, nil
	}
	for _, f := range change {
		f(config)
	}
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	r.proxy = p
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
		goleak.VerifyNone(t, before)
	})
	return r
}

// eventually waits until the table has a text, or has it no more.
func (r *running) eventually(text string, want bool) {
	r.t.Helper()
	var dump string
	eventually(r.t, func() bool {
		r.nft.RLock()
		defer r.nft.RUnlock()
		dump = r.nft.Dump()
		return strings.Contains(dump, text) == want
	}, func() string { return fmt.Sprintf("%q is still %v in\n%s", text, !want, dump) })
}

// eventually waits until a condition holds.
func eventually(t *testing.T, holds func() bool, otherwise func() string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal(otherwise())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestRunFollowsTheAPI(t *testing.T) {
	r := start(t)
	r.eventually("0 : 10.244.1.2 . 8080", true)
	slices := r.client.DiscoveryV1().EndpointSlices("ns")
	if _, err := slices.Update(t.Context(), slice("a", "10.244.1.9"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("0 : 10.244.1.9 . 8080", true)
	services := r.client.CoreV1().Services("ns")
	if _, err := services.Create(t.Context(), service("b", "10.96.0.8"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("10.96.0.8 . tcp . 80 : goto reject-chain", true)
	if err := services.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("10.96.0.7", false)
}

func TestFlushedRulesComeBack(t *testing.T) {
	r := start(t)
	r.eventually("0 : 10.244.1.2 . 8080", true)
	tx := r.nft.NewTransaction()
	tx.Delete(&knftables.Table{})
	if err := r.nft.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	r.eventually("0 : 10.244.1.2 . 8080", true)
}

func TestRunReturnsWhereNftablesCannotBeOpened(t *testing.T) {
	before := goleak.IgnoreCurrent()
	config := NewConfig()
	config.Client, config.Flows, config.HostnameOverride = fake.NewClientset(node()), noFlows{}, "me"
	config.HealthzAddress, config.MetricsAddress, config.Conntrack = "", "", Conntrack{}
	noNFTables := errors.New("no nftables")
	config.Open = func(v1.IPFamily) (knftables.Interface, nftcheck.Kernel, error) { return nil, nil, noNFTables }
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); !errors.Is(err, noNFTables) {
		t.Errorf("Run returned %v", err)
	}
	goleak.VerifyNone(t, before)
}

// What comes to be known of the node while the proxy runs changes rules.
func TestNodeChanges(t *testing.T) {
	r := start(t, func(c *Config) { c.DetectLocalMode = "NodeCIDR" })
	r.eventually("0 : 10.244.1.2 . 8080", true)
	r.eventually("ip daddr 10.96.0.7 tcp dport 80", false) // Nothing tells traffic of pods.
	r.eventually("nodeport-ips { 10.0.0.1 }", true)
	nodes := r.client.CoreV1().Nodes()
	changed := node()
	changed.Spec.PodCIDRs = []string{"10.244.3.0/24"}
	changed.Status.Addresses[0].Address = "10.0.0.9"
	if _, err := nodes.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("ip daddr 10.96.0.7 tcp dport 80 ip saddr != 10.244.3.0/24 jump mark-for-masquerade", true)
	r.eventually("nodeport-ips { 10.0.0.9 }", true)
	r.eventually("nodeport-ips { 10.0.0.1 }", false)
	eligible := func(want bool) {
		t.Helper()
		eventually(t, func() bool { return r.proxy.health.NodeEligible() == want },
			func() string { return fmt.Sprintf("the node's eligibility is still %v", !want) })
	}
	if err := nodes.Delete(t.Context(), "me", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eligible(false)
	r.eventually("nodeport-ips { 10.0.0.9 }", true) // Pods still run.
	if _, err := nodes.Create(t.Context(), changed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eligible(true)
}

func TestServiceCIDRs(t *testing.T) {
	r := start(t)
	r.eventually("0 : 10.244.1.2 . 8080", true)
	ranges := r.client.NetworkingV1().ServiceCIDRs()
	object := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12", "fd00::/112"}},
	}
	if _, err := ranges.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("cluster-ips-check ip daddr { 10.96.0.0/12 } drop", true)
	if err := ranges.Delete(t.Context(), "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("10.96.0.0/12", false)
}

func TestStartIsTold(t *testing.T) {
	r := start(t)
	var events []eventsv1.Event
	eventually(t, func() bool {
		list, err := r.client.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		events = list.Items
		return len(events) > 0
	}, func() string { return "there is no event" })
	e := events[0]
	if e.Reason != "Starting" || e.Action != "StartKubeProxy" || e.ReportingController != "kube-proxy" ||
		e.Type != v1.EventTypeNormal || e.Regarding.Kind != "Node" || e.Regarding.Name != "me" {
		t.Errorf("got %+v", e)
	}
}

func TestCleanup(t *testing.T) {
	kernel := knftables.NewFake(knftables.IPv4Family, "kube-proxy")
	tx := kernel.NewTransaction()
	tx.Add(&knftables.Table{})
	if err := kernel.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	missing := errors.New("no such family")
	config := NewConfig()
	config.Cleanup, config.HostnameOverride = true, "me"
	cleanup := func() error {
		p, err := New(*config)
		if err != nil {
			t.Fatal(err)
		}
		return p.Run(t.Context())
	}
	config.Open = func(family v1.IPFamily) (knftables.Interface, nftcheck.Kernel, error) {
		if family == v1.IPv6Protocol {
			return nil, nil, missing
		}
		return kernel, &nftchecktest.Kernel{Fake: kernel}, nil
	}
	if err := cleanup(); err != nil || kernel.Table != nil {
		t.Errorf("error %v, table %v", err, kernel.Table)
	}
	config.Open = func(v1.IPFamily) (knftables.Interface, nftcheck.Kernel, error) { return nil, nil, missing }
	if err := cleanup(); !errors.Is(err, missing) {
		t.Errorf("without both families: %v", err)
	}
}
