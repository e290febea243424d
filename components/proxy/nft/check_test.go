package nft

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/proxy/model"
)

// script runs commands of nft in the calling thread's network namespace.
func script(t testing.TB, commands ...string) {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("nft: %v: %s", err, out)
	}
}

// Whatever another program changes of the table is found, and the next sync brings it back. Tables of others and the
// clients of Services don't matter.
func TestCheckFindsWhatOthersChange(t *testing.T) {
	a, sticky := port("a", 2), port("b", 2, func(p *model.ServicePort) {
		p.ClusterIP, p.AffinitySeconds = netip.MustParseAddr("10.96.0.8"), 60
	})
	service := "ip kube-proxy service-" + portName(a.Key)
	clients := "ip kube-proxy " + table4(newFake()).render(sticky).affinity[0].name
	for name, of := range map[string]struct {
		commands []string
		intact   bool
	}{
		"table deleted": {[]string{"delete table ip kube-proxy"}, false},
		"table dormant": {[]string{"add table ip kube-proxy { flags dormant ; }"}, false},
		"chain flushed": {[]string{"flush chain " + service}, false},
		"chain added":   {[]string{"add chain ip kube-proxy mine"}, false},
		"rule added":    {[]string{"insert rule " + service + " accept"}, false},
		"rules replaced": {[]string{"flush chain " + service, "add rule " + service + " accept",
			"add rule " + service + " accept"}, false},
		"base rule replaced": {[]string{"flush chain ip kube-proxy nat-prerouting",
			"add rule ip kube-proxy nat-prerouting accept"}, false},
		"map flushed": {[]string{"flush map ip kube-proxy service-ips"}, false},
		"set flushed": {[]string{"flush set ip kube-proxy cluster-ips"}, false},
		"element replaced": {[]string{"delete element ip kube-proxy service-ips { 10.96.0.7 . tcp . 80 }",
			"add element ip kube-proxy service-ips { 10.96.0.7 . tcp . 81 : drop }"}, false},
		"verdict replaced": {[]string{"delete element ip kube-proxy service-ips { 10.96.0.7 . tcp . 80 }",
			"add element ip kube-proxy service-ips { 10.96.0.7 . tcp . 80 : drop }"}, false},
		"table of others": {[]string{"add table ip mine", "add chain ip mine services",
			"add set ip mine cluster-ips { type ipv4_addr ; elements = { 10.0.0.1 } ; }"}, true},
		"same table in another family": {[]string{"add table ip6 kube-proxy", "add chain ip6 kube-proxy services"}, true},
		"client of a Service":          {[]string{"add element " + clients + " { 10.0.0.9 }"}, true},
	} {
		inOwnNamespace(t, name, func(t *testing.T) {
			table := table4(ownNamespace(t))
			sync(t, table, []model.ServicePort{a, sticky})
			expectIntact(t, table, true)
			sync(t, table, []model.ServicePort{port("c", 1, func(p *model.ServicePort) {
				p.ClusterIP = netip.MustParseAddr("10.96.0.9")
			})})
			if strings.HasPrefix(name, "element") || strings.HasPrefix(name, "verdict") {
				expectIntact(t, table, true) // the sync changed the map
			}
			script(t, of.commands...)
			expectIntact(t, table, of.intact)
			if !of.intact {
				table.Invalidate()
				sync(t, table, nil)
				expectIntact(t, table, true)
			}
		})
	}
}

// Ports that ask for the same element, or twice for one, and objects that could not be deleted yet are no changes of
// others.
func TestCheckKnowsItsOwnChanges(t *testing.T) {
	inOwnNamespace(t, "", func(t *testing.T) {
		table := table4(ownNamespace(t))
		outside := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		a := port("a", 2, func(p *model.ServicePort) { p.ExternalIPs, p.LoadBalancerIPs = outside, outside })
		b := port("b", 1, func(p *model.ServicePort) {
			p.ClusterIP, p.ExternalIPs = netip.MustParseAddr("10.96.0.8"), outside
		})
		config := table.config
		config.NodePortIPs = append(config.NodePortIPs, config.NodePortIPs[0], netip.MustParseAddr("127.0.0.1"))
		table.Reconfigure(config)
		sync(t, table, []model.ServicePort{a, b})
		expectIntact(t, table, true)
		sync(t, table, []model.ServicePort{b}, a.Key)
		expectIntact(t, table, true)
		table.stale.chains = append(table.stale.chains, "left")
		script(t, "add chain ip kube-proxy left")
		expectIntact(t, table, true)
		sync(t, table, nil)
		expectIntact(t, table, true)
	})
}

// inOwnNamespace runs a test on a goroutine whose thread ends with it.
func inOwnNamespace(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			test(t)
		}()
		<-ended
	})
}

func expectIntact(t *testing.T, table *Table, want bool) {
	t.Helper()
	if ok, err := table.Check(); ok != want || err != nil {
		t.Errorf("the table is as it was left: %v, %v, want %v", ok, err, want)
	}
}

// BenchmarkCheck checks a table of 5,000 Services, after another program changed rules and where none did.
func BenchmarkCheck(b *testing.B) {
	for _, changed := range []bool{false, true} {
		b.Run(fmt.Sprintf("changed=%v", changed), func(b *testing.B) {
			ended := make(chan struct{})
			go func() { // its thread ends with it
				defer close(ended)
				benchCheck(b, changed)
			}()
			<-ended
		})
	}
}

func benchCheck(b *testing.B, changed bool) {
	table := table4(ownNamespace(b))
	var ports []model.ServicePort
	for i := range 5000 {
		ports = append(ports, port(fmt.Sprintf("s%d", i), 2, func(p *model.ServicePort) {
			p.ClusterIP = netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
			p.NodePort = uint16(30000 + i/2)
			p.Key.Protocol = []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP}[i%2]
		}))
	}
	if _, err := table.Sync(b.Context(), ports, nil); err != nil {
		b.Error(err)
		return
	}
	for b.Loop() {
		if changed {
			b.StopTimer()
			script(b, "add table ip other", "delete table ip other")
			b.StartTimer()
		}
		if ok, err := table.Check(); !ok || err != nil {
			b.Errorf("the table is as it was left: %v, %v", ok, err)
			return
		}
	}
}
