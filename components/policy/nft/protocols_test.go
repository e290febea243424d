package nft

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/policy/conntrack"
	"quintet.dev/quintet/components/policy/policytest"
	"quintet.dev/quintet/internal/netnstest"
)

func portOf(protocol v1.Protocol, number int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr.To(intstr.FromInt32(number))}
}

// Where the kernel passes the bridge's frames through the hook, pods of one node find each other all the same.
func TestPacketsWithBridgeNetfilter(t *testing.T) {
	if _, err := os.Stat("/proc/sys/net/bridge"); err != nil {
		t.Skip("the module br_netfilter is not loaded")
	}
	e := newEnforced(t)
	netnstest.Sysctl(t, e.node(), "net.bridge.bridge-nf-call-iptables=1", "net.bridge.bridge-nf-call-ip6tables=1")
	var policies []*networkingv1.NetworkPolicy
	for _, namespace := range []string{"a", "b", "c"} {
		policies = append(policies, policyOf(namespace, "p", egress(nil, portOf(v1.ProtocolTCP, 80))))
	}
	e.setPolicies(t, policies...)
	var onBridge []policytest.Connection
	for _, of := range e.connections() {
		if e.at[of.From] != e.beyond() && e.at[of.To] != e.beyond() {
			onBridge = append(onBridge, of)
		}
	}
	e.compare(t, policytest.Sample(policytest.NewRandom(1), onBridge, 200))
}

// passes tells whether a packet of an IP protocol comes from one address to another.
func (e *enforced) passes(t *testing.T, from, to netip.Addr, protocol string, packet []byte, want bool) {
	t.Helper()
	received := make(chan bool, 1)
	if err := netnstest.In(e.at[to], func() error {
		conn, err := net.ListenIP(protocol, &net.IPAddr{IP: to.AsSlice()})
		if err != nil {
			return err
		}
		timeout := map[bool]time.Duration{true: allowedFor, false: deniedFor}[want]
		_ = conn.SetReadDeadline(time.Now().Add(timeout))
		go func() {
			defer conn.Close()
			buffer := make([]byte, 256)
			for {
				n, err := conn.Read(buffer)
				if err != nil || bytes.HasSuffix(buffer[:n], packet) {
					received <- err == nil
					return
				}
			}
		}()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := netnstest.In(e.at[from], func() error {
		conn, err := net.DialIP(protocol, &net.IPAddr{IP: from.AsSlice()}, &net.IPAddr{IP: to.AsSlice()})
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(packet)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != want {
		t.Errorf("%s from %s to %s passes: %v, want %v", protocol, from, to, got, want)
	}
}

// echoRequest is an ICMP message. Those of one identifier are one connection.
func echoRequest(id uint16) []byte {
	packet := []byte{8, 0, 0, 0, 0, 0, 0, 1}
	binary.BigEndian.PutUint16(packet[4:], id)
	binary.BigEndian.PutUint16(packet[2:], ^(0x0800 + id + 1))
	return packet
}

// sctpInit requests an association.
func sctpInit(port uint16) []byte {
	packet := make([]byte, 12, 32)
	binary.BigEndian.PutUint16(packet, 40000)
	binary.BigEndian.PutUint16(packet[2:], port)
	return append(packet, 1, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1)
}

// Protocols other than TCP and UDP are matched, too: SCTP by its ports, and others only pass rules without ports.
func TestPacketsOfOtherProtocols(t *testing.T) {
	e := newEnforced(t)
	from, to := podIPs(1, 1)[0], podIPs(1, 0)[0] // of namespaces b and a
	const icmp, sctp = "ip4:icmp", "ip4:132"
	for i, test := range []struct {
		name           string
		policy         *networkingv1.NetworkPolicy
		icmp, sctp, no bool // no is SCTP to another port
	}{
		{"deny", denyAll("a", networkingv1.PolicyTypeIngress), false, false, false},
		{"deny egress", denyAll("b", networkingv1.PolicyTypeEgress), false, false, false},
		{"all", policyOf("a", "p", ingress(nil)), true, true, true},
		{"TCP", policyOf("a", "p", ingress(nil, portOf(v1.ProtocolTCP, 80))), false, false, false},
		{"SCTP", policyOf("a", "p", ingress(nil, portOf(v1.ProtocolSCTP, 80))), false, true, false},
		{"all SCTP", policyOf("a", "p", ingress(nil, networkingv1.NetworkPolicyPort{
			Protocol: ptr.To(v1.ProtocolSCTP),
		})), false, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			e.setPolicies(t, test.policy)
			e.passes(t, from, to, icmp, echoRequest(uint16(i)), test.icmp)
			e.passes(t, from, to, sctp, sctpInit(80), test.sctp)
			e.passes(t, from, to, sctp, sctpInit(81), test.no)
			if test.name == "SCTP" {
				got, err := e.reaches(e.at[from], from, netip.AddrPortFrom(to, 80), v1.ProtocolTCP, deniedFor)
				if got || err != nil {
					t.Errorf("TCP to the port of SCTP passes: %v, %v", got, err)
				}
			}
		})
	}
}

// conversation is a UDP socket that sends requests repeatedly.
type conversation struct{ conn net.Conn }

func (e *enforced) converse(t *testing.T, from, to netip.Addr) *conversation {
	t.Helper()
	c := &conversation{}
	if err := netnstest.In(e.at[from], func() (err error) {
		c.conn, err = (&net.Dialer{}).DialContext(context.Background(), "udp", netip.AddrPortFrom(to, 53).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.conn.Close() })
	return c
}

func (c *conversation) answered(t *testing.T, what string, want bool) {
	t.Helper()
	timeout := map[bool]time.Duration{true: allowedFor, false: deniedFor}[want]
	_ = c.conn.SetDeadline(time.Now().Add(timeout))
	if _, err := c.conn.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.conn.Read(make([]byte, 1)); (err == nil) != want {
		t.Errorf("%s is answered: %v, want %v", what, err, want)
	}
}

// A policy applies to connections that start after it; established ones continue until their pod terminates.
func TestPacketsOfEstablishedConnections(t *testing.T) {
	e := newEnforced(t)
	from, to := podIPs(1, 1)[0], podIPs(1, 0)[0]
	old := e.converse(t, from, to)
	old.answered(t, "a connection without policies", true)
	e.setPolicies(t, denyAll("a", networkingv1.PolicyTypeIngress))
	old.answered(t, "a connection older than the policy", true)
	e.converse(t, from, to).answered(t, "a connection younger than the policy", false)

	pod := e.cluster.Pods[0]
	e.index.DeletePod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	changes := e.index.Take()
	if err := netnstest.In(e.node(), func() error {
		if err := e.table.Sync(t.Context(), e.index.Current(), changes); err != nil {
			return err
		}
		if _, ended := changes.Ended[to]; !ended {
			t.Errorf("addresses of ended pods are %v", changes.Ended)
		}
		deleted, err := conntrack.Netlink{}.Delete(changes.Ended)
		if deleted == 0 {
			t.Error("no connection was deleted")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	next := pod.DeepCopy()
	next.Name, next.UID = "next", "next"
	setPod(e.index, next)
	e.sync(t)
	old.answered(t, "a connection to the former pod of the address", false)
	e.index.DeletePolicy(types.NamespacedName{Namespace: "a", Name: "deny"})
	e.sync(t)
	old.answered(t, "a connection without policies", true)
}

// A pod that has one family, or whose addresses change, is isolated at what it has.
func TestPacketsOfChangedAddresses(t *testing.T) {
	e := newEnforced(t)
	e.setPolicies(t, denyAll("a", networkingv1.PolicyTypeIngress))
	from, to := podIPs(1, 1), podIPs(1, 0)
	pod := e.cluster.Pods[0].DeepCopy()
	expect := func(what string, family int, want bool) {
		t.Helper()
		timeout := map[bool]time.Duration{true: allowedFor, false: deniedFor}[want]
		at := netip.AddrPortFrom(to[family], 80)
		got, err := e.reaches(e.at[from[family]], from[family], at, v1.ProtocolTCP, timeout)
		if got != want || err != nil {
			t.Errorf("%s: %s is reached: %v, %v, want %v", what, at, got, err, want)
		}
	}
	for family, what := range []string{"IPv4 alone", "IPv6 alone"} {
		pod.Status.PodIP, pod.Status.PodIPs = to[family].String(), []v1.PodIP{{IP: to[family].String()}}
		setPod(e.index, pod)
		e.sync(t)
		expect(what, family, false)
		expect(what, 1-family, true)
	}
	pod.Status.Phase = v1.PodFailed
	setPod(e.index, pod)
	setPod(e.index, policytest.Pod("b", "next", policytest.Node, nil, 80, 53, to...))
	e.sync(t)
	expect("a pod of another namespace has the address of one that failed", 0, true)
}
