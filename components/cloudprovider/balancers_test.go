package cloudprovider

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/cloudprovider/forward"
	"quintet.dev/quintet/components/cloudprovider/kernel"
)

var testNetwork = &kernel.Network{
	Interface: "eth0",
	Prefixes:  []netip.Prefix{netip.MustParsePrefix("10.213.77.2/24"), netip.MustParsePrefix("fd00:77::2/64")},
	Gateways:  []netip.Addr{netip.MustParseAddr(bridge4)},
}

func made(t *testing.T, pools ...string) *balancers {
	t.Helper()
	var prefixes []netip.Prefix
	for _, text := range pools {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	b, err := newBalancers(prefixes, testNetwork, forward.New(forward.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// requested requests an address.
func requested(ip string) func(*v1.Service) {
	return func(s *v1.Service) { s.Spec.LoadBalancerIP = ip }
}

func ips(status v1.LoadBalancerStatus) []string {
	var all []string
	for _, i := range status.Ingress {
		all = append(all, i.IP)
	}
	return all
}

func TestEnsure(t *testing.T) {
	dual := []v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol}
	prefer, require := v1.IPFamilyPolicyPreferDualStack, v1.IPFamilyPolicyRequireDualStack
	for name, test := range map[string]struct {
		pools  []string
		change func(*v1.Service)
		want   []string // prefixes of the addresses
		err    string
	}{
		"one family": {[]string{pool4, pool6}, func(*v1.Service) {}, []string{"10.213.77."}, ""},
		"two families": {[]string{pool4, pool6}, func(s *v1.Service) { s.Spec.IPFamilies = dual },
			[]string{"fd00:77::f", "10.213.77."}, ""},
		"a family that is preferred": {[]string{pool4}, func(s *v1.Service) {
			s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = dual, &prefer
		}, []string{"10.213.77."}, ""},
		"a family that is required": {[]string{pool4}, func(s *v1.Service) {
			s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = dual, &require
		}, nil, "no address pool of family IPv6"},
		"requested": {[]string{pool4, pool6}, func(s *v1.Service) {
			s.Spec.IPFamilies, s.Spec.LoadBalancerIP = dual, "10.213.77.222"
		}, []string{"fd00:77::f", "10.213.77.222"}, ""},
		"requested elsewhere": {[]string{pool4}, requested("10.213.77.5"), nil,
			"spec.loadBalancerIP: 10.213.77.5 is not in an address pool"},
		"requested of another family": {[]string{pool4, pool6}, requested("fd00:77::f01"), nil,
			"spec.loadBalancerIP: fd00:77::f01 is not of a family"},
		"requested, malformed": {[]string{pool4}, requested("a"), nil, "spec.loadBalancerIP"},
		"requested of a node":  {[]string{pool4}, requested("10.213.77.250"), nil, "of a node"},
		"requested broadcast":  {[]string{pool4}, requested("10.213.77.255"), nil, "network"},
		"requested, in use": {[]string{pool4}, requested("10.213.77.199"), nil,
			"in use by Service default/other"},
	} {
		t.Run(name, func(t *testing.T) {
			b := made(t, test.pools...)
			b.UpdateNodes([]*v1.Node{readyNode("n", "10.213.77.250")}, nil)
			if _, err := b.Ensure("default/other", loadBalanced("other", "10.213.77.199")); err != nil {
				t.Fatal(err)
			}
			svc := loadBalanced("a", "")
			test.change(svc)
			status, err := b.Ensure("default/a", svc)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || b.Exists("default/a") {
					t.Errorf("got %v, want %q", err, test.err)
				}
				return
			}
			got := ips(status)
			if err != nil || !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("got %v, %v, want %v", got, err, test.want)
			}
			for _, i := range status.Ingress {
				if i.IPMode == nil || *i.IPMode != v1.LoadBalancerIPModeVIP {
					t.Errorf("ipMode of %s is %v", i.IP, i.IPMode)
				}
			}
		})
	}
}

// Services come, change and go: no address is of two, and all of them are free in the end.
func TestAddressesAreNeverShared(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 4))
	b := made(t, "10.213.77.248/29", "fd00:77::f00/125")
	for range 5000 {
		name := fmt.Sprint(random.IntN(12))
		key := "default/" + name
		if random.IntN(3) == 0 {
			b.Delete(key)
			continue
		}
		svc := loadBalanced(name, "")
		svc.Spec.IPFamilies = [][]v1.IPFamily{
			{v1.IPv4Protocol}, {v1.IPv6Protocol}, {v1.IPv4Protocol, v1.IPv6Protocol},
		}[random.IntN(3)]
		if random.IntN(3) == 0 {
			svc.Spec.LoadBalancerIP = fmt.Sprintf("10.213.77.%d", 248+random.IntN(8))
		}
		before := slices.Clone(b.addresses[key])
		status, err := b.Ensure(key, svc)
		if err != nil && !slices.Equal(b.addresses[key], before) {
			t.Fatalf("an error took %v and left %v", before, b.addresses[key])
		}
		if err == nil && len(status.Ingress) != len(svc.Spec.IPFamilies) {
			t.Fatalf("%v for families %v", ips(status), svc.Spec.IPFamilies)
		}
		owners := map[netip.Addr]string{}
		for key, addresses := range b.addresses {
			for _, address := range addresses {
				if owners[address] != "" {
					t.Fatalf("%s is of %s and of %s", address, owners[address], key)
				}
				owners[address] = key
			}
		}
	}
	for i := range 12 {
		b.Delete(fmt.Sprintf("default/%d", i))
	}
	for i := range 7 { // 8 but for the network's broadcast
		if _, err := b.Ensure(fmt.Sprintf("new/%d", i), loadBalanced("new", "")); err != nil {
			t.Errorf("address %d: %v", i, err)
		}
	}
}

func TestAdopt(t *testing.T) {
	b := made(t, pool4, pool6)
	first, second := loadBalanced("first", ""), loadBalanced("second", "")
	for _, svc := range []*v1.Service{first, second} {
		svc.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{
			{IP: "10.213.77.230"}, {IP: "1.2.3.4"}, {Hostname: "x"},
		}
	}
	b.Adopt([]*v1.Service{first, second})
	if !b.Exists("default/first") || b.Exists("default/second") {
		t.Error("want the address to be the first Service's")
	}
	for key, svc := range map[string]*v1.Service{"default/second": second, "default/first": first} {
		status, err := b.Ensure(key, svc)
		if err != nil || len(status.Ingress) != 1 || (status.Ingress[0].IP == "10.213.77.230") != (svc == first) {
			t.Errorf("%s: %v, %v", key, status, err)
		}
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--address-pool is required":                 func(c *Config) { c.AddressPools = nil },
		`--address-pool "a"`:                         func(c *Config) { c.AddressPools = []string{"a"} },
		"--address-pool 10.1.0.0/24 is not within":   func(c *Config) { c.AddressPools = []string{"10.1.0.0/24"} },
		"--address-pool 10.213.0.0/16 is not within": func(c *Config) { c.AddressPools = []string{"10.213.0.0/16"} },
		"--address-pool: address pools":              func(c *Config) { c.AddressPools = []string{pool4, pool4} },
		"address pool 10.213.77.193/26: use":         func(c *Config) { c.AddressPools = []string{"10.213.77.193/26"} },
		"--check-period":                             func(c *Config) { c.CheckPeriod = 0 },
		"--check-timeout":                            func(c *Config) { c.CheckTimeout = -1 },
		"--sync-period":                              func(c *Config) { c.Resync = 0 },
		"--healthz-bind-address":                     func(c *Config) { c.HealthzAddress = "localhost:1" },
		"--kube-proxy-healthz-port":                  func(c *Config) { c.KubeProxyPort = 0 },
		"--load-balancer-class":                      func(c *Config) { c.LoadBalancerClass = "no/such/class" },
		"--kubeconfig is required":                   func(c *Config) { c.Kubeconfig = "" },
		"--interface no-such-interface":              func(c *Config) { c.Kernel, c.Interface = nil, "no-such-interface" },
	} {
		config := NewConfig()
		config.AddressPools, config.Network = []string{pool4}, testNetwork
		config.Kernel = &fakeKernel{}
		if want != "--kubeconfig is required" {
			config.Client = noClient
		}
		change(config)
		if _, err := New(*config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
