package kubelet

import (
	"net"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestAddressesOfBothFamilies(t *testing.T) {
	config := NewConfig()
	config.NodeIP = "fd00::1,10.0.0.1"
	k := &Kubelet{config: *config, name: "n1"}
	addresses, ips, err := k.addresses(runtime.Simulated{})
	want := []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "fd00::1"}, {Type: v1.NodeInternalIP, Address: "10.0.0.1"},
		{Type: v1.NodeHostName, Address: "n1"},
	}
	if err != nil || !slices.Equal(addresses, want) || !slices.Equal(ips, []string{"fd00::1", "10.0.0.1"}) {
		t.Errorf("%v, %v, %v", addresses, ips, err)
	}
}

func TestWrongAddressesAreNamed(t *testing.T) {
	for _, test := range []struct{ nodeIP, podCIDR, want string }{
		{"x", "", `--node-ip "x"`},
		{"10.0.0.1,10.0.0.2", "", "must contain either a single IP or a dual-stack pair"},
		{"10.0.0.1,::", "", "cannot include"},
		{"", "10.0.0.0", `--pod-cidr "10.0.0.0"`},
		{"", "10.0.0.0/24,10.0.1.0/24", "one range of each family"},
	} {
		config := NewConfig()
		config.Kubeconfig, config.NodeIP, config.PodCIDR = "file", test.nodeIP, test.podCIDR
		if err := config.validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	cidrs, err := splitCIDRs("10.0.0.0/24, fd00::/64")
	if err != nil || !slices.Equal(cidrs, []string{"10.0.0.0/24", "fd00::/64"}) {
		t.Errorf("%v, %v", cidrs, err)
	}
}

// The API is served on all addresses of both families by default.
func TestServesBothFamilies(t *testing.T) {
	listener, err := net.Listen("tcp", net.JoinHostPort(NewConfig().Address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Error(err)
			continue
		}
		_ = conn.Close()
	}
}
