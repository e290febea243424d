package conntrack

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/proxy/model"
)

func dnsTable(serving ...string) *Table {
	ports := []model.ServicePort{
		{
			Key:       model.PortKey{Port: "dns", Protocol: v1.ProtocolUDP, Family: v1.IPv4Protocol},
			ClusterIP: netip.MustParseAddr("10.0.0.10"), Port: 53, NodePort: 30053,
			ExternalIPs:     []netip.Addr{netip.MustParseAddr("192.0.2.1")},
			LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("198.51.100.1")},
		},
		{
			Key:       model.PortKey{Port: "dns-tcp", Protocol: v1.ProtocolTCP, Family: v1.IPv4Protocol},
			ClusterIP: netip.MustParseAddr("10.0.0.11"), Port: 53, NodePort: 30054,
		},
	}
	return NewTable(ports, func(model.PortKey) []netip.Addr {
		var ips []netip.Addr
		for _, ip := range serving {
			ips = append(ips, netip.MustParseAddr(ip))
		}
		return ips
	})
}

func flow(destination, replySource string) Flow {
	return Flow{
		Protocol: unix.IPPROTO_UDP, Destination: netip.MustParseAddrPort(destination),
		ReplySource: netip.MustParseAddr(replySource),
	}
}

func TestStale(t *testing.T) {
	tcp := flow("10.0.0.10:53", "10.1.0.9")
	tcp.Protocol = unix.IPPROTO_TCP
	for name, test := range map[string]struct {
		flow    Flow
		serving []string
		stale   bool
	}{
		"current endpoint":        {flow("10.0.0.10:53", "10.1.0.1"), []string{"10.1.0.1"}, false},
		"endpoint that is gone":   {flow("10.0.0.10:53", "10.1.0.9"), []string{"10.1.0.1"}, true},
		"no translation":          {flow("10.0.0.10:53", "10.0.0.10"), []string{"10.1.0.1"}, true},
		"external IP":             {flow("192.0.2.1:53", "10.1.0.9"), []string{"10.1.0.1"}, true},
		"load balancer IP":        {flow("198.51.100.1:53", "10.1.0.9"), []string{"10.1.0.1"}, true},
		"node port":               {flow("172.18.0.2:30053", "10.1.0.9"), []string{"10.1.0.1"}, true},
		"node port, current":      {flow("172.18.0.2:30053", "10.1.0.1"), []string{"10.1.0.1"}, false},
		"node port, other family": {flow("[fd00::2]:30053", "fd00::9"), []string{"10.1.0.1"}, false},
		"other port":              {flow("10.0.0.10:54", "10.1.0.9"), []string{"10.1.0.1"}, false},
		"other address":           {flow("10.1.0.9:53", "10.1.0.9"), []string{"10.1.0.1"}, false},
		"port of protocol TCP":    {flow("10.0.0.11:53", "10.1.0.9"), []string{"10.1.0.1"}, false},
		"flow of protocol TCP":    {tcp, []string{"10.1.0.1"}, false},
		"no endpoint serves":      {flow("10.0.0.10:53", "10.1.0.9"), nil, false},
	} {
		if got := dnsTable(test.serving...).Stale(test.flow); got != test.stale {
			t.Errorf("%s: stale is %v", name, got)
		}
	}
}

type fakeKernel struct {
	flows []Flow
	err   error
	dumps int
}

func (k *fakeKernel) Delete(_ v1.IPFamily, stale func(Flow) bool) (int, error) {
	k.dumps++
	before := len(k.flows)
	k.flows = slices.DeleteFunc(k.flows, stale)
	return before - len(k.flows), k.err
}

func TestClean(t *testing.T) {
	kernel := &fakeKernel{flows: []Flow{flow("10.0.0.10:53", "10.1.0.1"), flow("10.0.0.10:53", "10.1.0.2")}}
	if n, err := Clean(kernel, v1.IPv4Protocol, dnsTable("10.1.0.1")); n != 1 || err != nil || len(kernel.flows) != 1 {
		t.Errorf("%d deleted, error %v, %v left", n, err, kernel.flows)
	}
	if _, err := Clean(kernel, v1.IPv4Protocol, dnsTable()); err != nil || kernel.dumps != 1 {
		t.Errorf("without endpoints: error %v, %d dumps", err, kernel.dumps)
	}
	kernel.err = errors.New("denied")
	if _, err := Clean(kernel, v1.IPv4Protocol, dnsTable("10.1.0.1")); !errors.Is(err, kernel.err) {
		t.Errorf("error %v", err)
	}
}
