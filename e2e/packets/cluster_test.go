package packets

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy"
	"quintet.dev/quintet/components/proxy/conntrack"
	"quintet.dev/quintet/components/proxy/nft"
	"quintet.dev/quintet/components/routes"
	"quintet.dev/quintet/internal/netnstest"
	"quintet.dev/quintet/internal/nftcheck"
)

const servicePort = 80

// cluster is a network whose nodes run kube-proxy and node-routes, once they are started.
type cluster struct {
	*network
	// nodes are for node-routes. Each kube-proxy has an API of its own, as fakes don't know the selector by which it
	// watches its own node.
	nodes   *fake.Clientset
	proxies map[*node]*fake.Clientset
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	n := newNetwork(t)
	one, two := n.node1.object(), n.node2.object()
	return &cluster{network: n, nodes: fake.NewClientset(one, two), proxies: map[*node]*fake.Clientset{
		n.node1: fake.NewClientset(one), n.node2: fake.NewClientset(two),
	}}
}

// start starts the components. Objects are there before, as a fake client may lose those that come meanwhile.
func (c *cluster) start(t *testing.T) {
	t.Helper()
	for _, n := range []*node{c.node1, c.node2} {
		c.runRoutes(t, n)
		c.runProxy(t, n)
	}
}

func (n *node) object() *v1.Node {
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Spec: v1.NodeSpec{PodCIDRs: []string{
		fmt.Sprintf("10.244.%d.0/24", n.number), fmt.Sprintf("fd00:244:%d::/64", n.number),
	}}}
	object.Spec.PodCIDR = object.Spec.PodCIDRs[0]
	for _, ip := range n.ips {
		object.Status.Addresses = append(object.Status.Addresses,
			v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
	}
	return object
}

// runRoutes runs node-routes in the node's namespace: all that it does to the kernel is done by Run itself.
func (c *cluster) runRoutes(t *testing.T, n *node) {
	t.Helper()
	config := routes.NewConfig()
	config.Client, config.HostnameOverride = c.nodes, n.name
	r, err := routes.New(*config)
	if err != nil {
		t.Fatal(err)
	}
	background(t, func(ctx context.Context) error {
		return netnstest.In(n.namespace, func() error { return r.Run(ctx) })
	})
}

// runProxy runs kube-proxy with ways to the kernel of the node's namespace.
func (c *cluster) runProxy(t *testing.T, n *node) {
	t.Helper()
	config := proxy.NewConfig()
	config.Client, config.HostnameOverride, config.ClusterCIDR = c.proxies[n], n.name, "10.244.0.0/16,fd00:244::/32"
	config.HealthzAddress, config.MetricsAddress, config.MinSyncPeriod = "", "", 0
	config.Conntrack, config.OOMScoreAdj = proxy.Conntrack{}, 0
	config.Open = func(family v1.IPFamily) (rules knftables.Interface, kernel nftcheck.Kernel, err error) {
		err = netnstest.In(n.namespace, func() error {
			rules, kernel, err = nft.Open(family)
			return err
		})
		return nodeRules{rules, n.namespace}, nodeKernel{kernel, n.namespace}, err
	}
	if err := netnstest.In(n.namespace, func() error {
		flows, err := conntrack.NewNetlink() // its sockets stay in the namespace
		if err == nil {
			t.Cleanup(flows.Close)
		}
		config.Flows = flows
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(*config)
	if err != nil {
		t.Fatal(err)
	}
	background(t, p.Run)
}

// background runs a component until the test ends.
func background(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a component ended: %v", err)
		}
	})
}

// nodeRules is nftables of a namespace, from any thread.
type nodeRules struct {
	knftables.Interface
	namespace string
}

func (r nodeRules) Run(ctx context.Context, tx *knftables.Transaction) error {
	return netnstest.In(r.namespace, func() error { return r.Interface.Run(ctx, tx) })
}

func (r nodeRules) List(ctx context.Context, kind string) (names []string, err error) {
	err = netnstest.In(r.namespace, func() error {
		names, err = r.Interface.List(ctx, kind)
		return err
	})
	return names, err
}

// nodeKernel is the state of nftables of a namespace, from any thread.
type nodeKernel struct {
	nftcheck.Kernel
	namespace string
}

func (k nodeKernel) Generation() (generation uint32, err error) {
	err = netnstest.In(k.namespace, func() error {
		generation, err = k.Kernel.Generation()
		return err
	})
	return generation, err
}

func (k nodeKernel) Listing() (listing nftcheck.Listing, err error) {
	err = netnstest.In(k.namespace, func() error {
		listing, err = k.Kernel.Listing()
		return err
	})
	return listing, err
}

// clusterIP is the address and port of the test's Service.
func clusterIP(family int) netip.AddrPort {
	ip := netip.MustParseAddr([]string{"10.96.0.10", "fd00:96::10"}[family])
	return netip.AddrPortFrom(ip, servicePort)
}

// serve makes a Service of pods, in both families, and starts the components.
func (c *cluster) serve(t *testing.T, protocol v1.Protocol, change func(*v1.Service), pods ...*pod) {
	t.Helper()
	ips := []string{clusterIP(0).Addr().String(), clusterIP(1).Addr().String()}
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"},
		Spec: v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIP: ips[0], ClusterIPs: ips,
			IPFamilies: []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol},
			Ports:      []v1.ServicePort{{Port: servicePort, Protocol: protocol}}},
	}
	change(service)
	for _, client := range c.proxies {
		for _, object := range []runtime.Object{service, slice(0, protocol, pods), slice(1, protocol, pods)} {
			if err := client.Tracker().Add(object); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.start(t)
}

func unchanged(*v1.Service) {}

// move gives the Service other pods.
func (c *cluster) move(t *testing.T, protocol v1.Protocol, pods ...*pod) {
	t.Helper()
	slices := discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	for _, client := range c.proxies {
		for family := range 2 {
			if err := client.Tracker().Update(slices, slice(family, protocol, pods), "ns"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func slice(family int, protocol v1.Protocol, pods []*pod) *discoveryv1.EndpointSlice {
	kind := []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}[family]
	object := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("svc-%d", family),
			Labels: map[string]string{discoveryv1.LabelServiceName: "svc"}},
		AddressType: kind,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](targetPort),
			Protocol: ptr.To(protocol)}},
	}
	for _, p := range pods {
		object.Endpoints = append(object.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p.ips[family].String()}, NodeName: ptr.To(p.node.name),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return object
}

// expect asks until it gets an answer, as components need their time.
func expect(t *testing.T, from *host, protocol string, to netip.AddrPort, want string) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(netnstest.AnswerTimeout); time.Now().Before(deadline); {
		if got = netnstest.Ask(t, from.namespace, protocol, netip.Addr{}, to, time.Second); got == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s from %s to %s: got %q, want %q", protocol, from.name, to, got, want)
}

// sees is what a host answers to a client at an address.
func sees(h *host, client netip.Addr) string { return h.name + " " + client.String() }
