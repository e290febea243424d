package hostports

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestMappingsOf(t *testing.T) {
	dual := []string{"10.1.0.2", "fd00::2"}
	port := func(protocol v1.Protocol, hostIP string, hostPort, port int32) v1.ContainerPort {
		return v1.ContainerPort{Protocol: protocol, HostIP: hostIP, HostPort: hostPort, ContainerPort: port}
	}
	four, six := "TCP - 80 10.1.0.2:8080", "TCP - 80 [fd00::2]:8080"
	for name, test := range map[string]struct {
		port  v1.ContainerPort
		state runtime.State
		want  []string // protocol, host IP, port and target
	}{
		"all addresses": {port("", "", 80, 8080), runtime.Running, []string{four, six}},
		"all of IPv4":   {port("", "0.0.0.0", 80, 8080), runtime.Running, []string{four}},
		"all of IPv6":   {port("", "::", 80, 8080), runtime.Running, []string{six}},
		"one address": {port("UDP", "127.0.0.1", 80, 80), runtime.Running,
			[]string{"UDP 127.0.0.1 80 10.1.0.2:80"}},
		"no host port":       {port("", "", 0, 80), runtime.Running, nil},
		"sandbox that ended": {port("", "", 80, 80), runtime.Exited, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sandbox := runtime.Sandbox{State: test.state, IPs: dual, Ports: []v1.ContainerPort{test.port}}
			mappings, err := MappingsOf(&runtime.Pod{Sandboxes: []runtime.Sandbox{sandbox}})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Join(describe(mappings), "\n"), strings.Join(test.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	bad := &runtime.Pod{Sandboxes: []runtime.Sandbox{{
		State: runtime.Running, IPs: dual, Ports: []v1.ContainerPort{{HostPort: 80, HostIP: "x"}},
	}}}
	if _, err := MappingsOf(bad); err == nil || !strings.Contains(err.Error(), "host IP of host port 80") {
		t.Errorf("a bad host IP: %v", err)
	}
}

func describe(mappings []Mapping) []string {
	var lines []string
	for _, m := range mappings {
		host := "-"
		if m.HostIP.IsValid() {
			host = m.HostIP.String()
		}
		lines = append(lines,
			strings.Join([]string{string(m.Protocol), host, itoa(m.HostPort), m.Target.String()}, " "))
	}
	return lines
}

func mapping(protocol v1.Protocol, host string, port uint16, target string) Mapping {
	m := Mapping{
		Protocol: protocol, HostPort: port, Target: netip.MustParseAddrPort(target), Pod: "ns/pod",
		Created: time.Unix(1, 0),
	}
	if host != "" {
		m.HostIP = netip.MustParseAddr(host)
	}
	return m
}

const golden4 = `
add table ip kubelet-hostports { comment "host ports of pods" ; }
add chain ip kubelet-hostports host-ports
add chain ip kubelet-hostports input { type filter hook input priority 0 ; }
add chain ip kubelet-hostports output { type nat hook output priority -90 ; }
add chain ip kubelet-hostports postrouting { type nat hook postrouting priority 100 ; }
add chain ip kubelet-hostports prerouting { type nat hook prerouting priority -90 ; }
add set ip kubelet-hostports hairpins { type ipv4_addr . ipv4_addr ; }
add set ip kubelet-hostports pods { type ipv4_addr ; }
add map ip kubelet-hostports addr-ports { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service ; }
add map ip kubelet-hostports ports { type inet_proto . inet_service : ipv4_addr . inet_service ; }
add rule ip kubelet-hostports host-ports dnat to ip daddr . meta l4proto . th dport map @addr-ports
add rule ip kubelet-hostports host-ports dnat to meta l4proto . th dport map @ports
add rule ip kubelet-hostports input iifname != "lo" ip daddr 127.0.0.0/8 ct status ! dnat drop
add rule ip kubelet-hostports output fib daddr type local jump host-ports
add rule ip kubelet-hostports postrouting ct status dnat ip saddr . ip daddr @hairpins masquerade
add rule ip kubelet-hostports postrouting ct status dnat ip saddr 127.0.0.0/8 ip daddr @pods masquerade
add rule ip kubelet-hostports prerouting ip daddr != 127.0.0.0/8 fib daddr type local jump host-ports
add element ip kubelet-hostports hairpins { 10.1.0.2 . 10.1.0.2 }
add element ip kubelet-hostports pods { 10.1.0.2 }
add element ip kubelet-hostports addr-ports { 127.0.0.1 . udp . 53 : 10.1.0.2 . 53 }
add element ip kubelet-hostports ports { tcp . 8080 : 10.1.0.2 . 80 }
`

const golden6 = `
add table ip6 kubelet-hostports { comment "host ports of pods" ; }
add chain ip6 kubelet-hostports host-ports
add chain ip6 kubelet-hostports output { type nat hook output priority -90 ; }
add chain ip6 kubelet-hostports postrouting { type nat hook postrouting priority 100 ; }
add chain ip6 kubelet-hostports prerouting { type nat hook prerouting priority -90 ; }
add set ip6 kubelet-hostports hairpins { type ipv6_addr . ipv6_addr ; }
add set ip6 kubelet-hostports pods { type ipv6_addr ; }
add map ip6 kubelet-hostports addr-ports { type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service ; }
add map ip6 kubelet-hostports ports { type inet_proto . inet_service : ipv6_addr . inet_service ; }
add rule ip6 kubelet-hostports host-ports dnat to ip6 daddr . meta l4proto . th dport map @addr-ports
add rule ip6 kubelet-hostports host-ports dnat to meta l4proto . th dport map @ports
add rule ip6 kubelet-hostports output ip6 daddr != ::1 fib daddr type local jump host-ports
add rule ip6 kubelet-hostports postrouting ct status dnat ip6 saddr . ip6 daddr @hairpins masquerade
add rule ip6 kubelet-hostports prerouting ip6 daddr != ::1 fib daddr type local jump host-ports
add element ip6 kubelet-hostports hairpins { fd00::2 . fd00::2 }
add element ip6 kubelet-hostports pods { fd00::2 }
add element ip6 kubelet-hostports ports { sctp . 90 : fd00::2 . 9 }
`

func TestTablesAreWritten(t *testing.T) {
	filter, fakes := fakeTables()
	mappings := []Mapping{
		mapping(v1.ProtocolTCP, "", 8080, "10.1.0.2:80"), mapping(v1.ProtocolUDP, "127.0.0.1", 53, "10.1.0.2:53"),
		mapping(v1.ProtocolSCTP, "", 90, "[fd00::2]:9"),
		mapping(v1.ProtocolTCP, "", 8080, "10.1.0.9:80"), // taken
	}
	if err := filter.Apply(t.Context(), mappings); err != nil {
		t.Fatal(err)
	}
	for family, want := range map[knftables.Family]string{knftables.IPv4Family: golden4,
		knftables.IPv6Family: golden6} {
		if got := strings.TrimSpace(fakes[family].Dump()); got != strings.TrimSpace(want) {
			t.Errorf("family %s:\n%s\nwant\n%s", family, got, want)
		}
	}
	if !filter.Intact(t.Context(), mappings) {
		t.Error("what was just written is not intact")
	}
	if err := filter.Apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for family, fake := range fakes {
		if got := fake.Dump(); got != "" {
			t.Errorf("family %s is left with\n%s", family, got)
		}
	}
}
