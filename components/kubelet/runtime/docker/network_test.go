package docker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/network"
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func TestOrderOfAddresses(t *testing.T) {
	networks := map[string]*network.EndpointSettings{"pods": {
		IPAddress: netip.MustParseAddr("10.1.0.2"), GlobalIPv6Address: netip.MustParseAddr("fd00::2"),
	}}
	for _, test := range []struct{ ranges, want []string }{
		{nil, []string{"10.1.0.2", "fd00::2"}},
		{[]string{"10.1.0.0/24"}, []string{"10.1.0.2"}},
		{[]string{"fd00::/64"}, []string{"fd00::2"}},
		{[]string{"10.1.0.0/24", "fd00::/64"}, []string{"10.1.0.2", "fd00::2"}},
		{[]string{"fd00::/64", "10.1.0.0/24"}, []string{"fd00::2", "10.1.0.2"}},
	} {
		if got := orderedAddresses(networks, prefixes(test.ranges...)); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v", test.ranges, got)
		}
	}
}

func TestNetworkIsMadeAnew(t *testing.T) {
	for _, test := range []struct {
		have, want []string
		same       bool
	}{
		{[]string{"10.1.0.0/24"}, []string{"10.1.0.0/24"}, true},
		{[]string{"10.1.0.0/24"}, []string{"10.2.0.0/24"}, false},
		{[]string{"10.1.0.0/24"}, []string{"10.1.0.0/24", "fd00::/64"}, false},
		{[]string{"10.1.0.0/24", "fd00::/64"}, []string{"fd00::/64", "10.1.0.0/24"}, true},
		{[]string{"10.1.0.0/24", "fd00::/64"}, []string{"10.1.0.0/24"}, false},
		{[]string{"172.17.0.0/16", "fd00::/64"}, []string{"fd00::/64"}, true}, // the engine chose the other
	} {
		var config []network.IPAMConfig
		for _, subnet := range prefixes(test.have...) {
			config = append(config, network.IPAMConfig{Subnet: subnet})
		}
		if got := hasSubnets(config, prefixes(test.want...)); got != test.same {
			t.Errorf("%v to %v: same is %v", test.have, test.want, got)
		}
	}
}

func TestPodCIDRsAreChecked(t *testing.T) {
	for _, cidrs := range [][]string{{"x"}, {"10.1.0.0/24", "10.2.0.0/24"}, {"10.1.0.0/24", "fd00::/64", "fd01::/64"}} {
		if err := (&Engine{}).SetPodCIDRs(t.Context(), cidrs); err == nil {
			t.Errorf("%v are taken", cidrs)
		}
	}
}

func TestPortsAreKeptInALabel(t *testing.T) {
	ports := []v1.ContainerPort{{HostPort: 80, ContainerPort: 8080, Protocol: v1.ProtocolUDP, HostIP: "::1"}}
	labels := map[string]string{labelHostPorts: `[{"hostPort":22}]`} // of the pod's own
	if err := setPorts(labels, nil); err != nil || len(portsOf(labels)) != 0 {
		t.Errorf("%v, %v", labels, err)
	}
	if err := setPorts(labels, ports); err != nil || !slices.Equal(portsOf(labels), ports) {
		t.Errorf("%v, %v", labels, err)
	}
}

// A pod gets an address of both families, in the order of the ranges, and its host ports are known to the next kubelet.
func TestPodOfBothFamilies(t *testing.T) {
	e := engine(t)
	four := podRange(t, e)
	six := fmt.Sprintf("fd53:%x::/64", []byte(netip.MustParsePrefix(four).Addr().AsSlice())[2])
	if err := e.SetPodCIDRs(t.Context(), []string{six, four}); err != nil {
		t.Fatal(err)
	}
	pod := runtime.PodRef{UID: "dual", Namespace: "ns", Name: "dual"}
	ports := []v1.ContainerPort{{HostPort: 80, ContainerPort: 8080}}
	id, err := e.CreateSandbox(t.Context(), &runtime.SandboxSpec{Pod: pod, Image: image(), Hostname: "dual",
		Ports: ports})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Remove(context.WithoutCancel(t.Context()), id) })
	observed, err := e.Pod(t.Context(), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	sandbox := observed.Sandbox()
	if sandbox == nil || len(sandbox.IPs) != 2 || !slices.Equal(sandbox.Ports, ports) {
		t.Fatalf("got %+v", sandbox)
	}
	for i, subnet := range prefixes(six, four) {
		if !subnet.Contains(netip.MustParseAddr(sandbox.IPs[i])) {
			t.Errorf("address %d is %s, want one of %s", i, sandbox.IPs[i], subnet)
		}
	}
}
