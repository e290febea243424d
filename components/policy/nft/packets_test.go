package nft

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/policy/compile"
	"quintet.dev/quintet/components/policy/model"
	"quintet.dev/quintet/components/policy/policytest"
	"quintet.dev/quintet/internal/netnstest"
)

// A denied packet gets no answer, so that the test waits; an allowed one gets it soon, but on a busy machine.
const (
	deniedFor  = 300 * time.Millisecond
	allowedFor = 10 * time.Second
)

var (
	tcpPorts = []int32{80, 8080, 81}
	udpPorts = []int32{53, 80}
)

// enforced is a network whose node enforces the policies of a cluster.
type enforced struct {
	*network
	cluster policytest.Cluster
	index   *compile.Index
	table   *Table
}

func newEnforced(t *testing.T) *enforced {
	t.Helper()
	e := &enforced{network: newNetwork(t), index: compile.New()}
	e.serve(t, tcpPorts, udpPorts)
	if err := netnstest.In(e.node(), func() error {
		nft, kernel, err := Open()
		e.table = New(nft, kernel)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	e.index.SetPodCIDRs([]netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"),
		netip.MustParsePrefix("fd00:244:1::/64")})
	e.cluster.Namespaces = map[string]map[string]string{"a": {"app": "x"}, "b": {"app": "y", "tier": "z"}, "c": {}}
	for name, of := range e.cluster.Namespaces {
		e.index.SetNamespace(name, of)
	}
	apps, tiers := []string{"x", "y"}, []string{"x", "z", ""}
	for i := range localPods + remotePods {
		node, nodeName, nth := 1, policytest.Node, i
		if i >= localPods {
			node, nodeName, nth = 2, "node-2", i-localPods
		}
		labels := map[string]string{"app": apps[i/3%2]}
		if tier := tiers[i%2+i/6]; tier != "" {
			labels["tier"] = tier
		}
		http := []int32{80, 8080}[i%2] // a named port of one policy means several numbers
		namespace, name := string("abc"[i%3]), fmt.Sprintf("pod-%d", i)
		e.setPod(policytest.Pod(namespace, name, nodeName, labels, http, 53, podIPs(node, nth)...))
	}
	e.sync(t)
	return e
}

func (e *enforced) setPod(pod *v1.Pod) {
	e.cluster.Pods = append(e.cluster.Pods, pod)
	setPod(e.index, pod)
}

func (e *enforced) sync(t *testing.T) {
	t.Helper()
	if err := netnstest.In(e.node(), func() error {
		return e.table.Sync(t.Context(), e.index.Current(), e.index.Take())
	}); err != nil {
		t.Fatal(err)
	}
}

// setPolicies replaces all policies.
func (e *enforced) setPolicies(t *testing.T, policies ...*networkingv1.NetworkPolicy) {
	t.Helper()
	now := map[types.NamespacedName]*networkingv1.NetworkPolicy{}
	for _, policy := range policies {
		now[types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}] = policy
	}
	for _, policy := range e.cluster.Policies {
		if name := (types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}); now[name] == nil {
			e.index.DeletePolicy(name)
		}
	}
	e.cluster.Policies = nil
	for _, policy := range now {
		e.cluster.Policies = append(e.cluster.Policies, policy)
		if err := e.index.SetPolicy(policy); err != nil {
			t.Fatal(err)
		}
	}
	e.sync(t)
	e.check(t, true)
	if err := netnstest.In(e.node(), func() error { return e.table.Sweep(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	e.check(t, true)
}

// check looks whether the table is as it was left.
func (e *enforced) check(t *testing.T, want bool) {
	t.Helper()
	if err := netnstest.In(e.node(), func() error {
		ok, err := e.table.Check(e.index.Current())
		if err == nil && ok != want {
			err = fmt.Errorf("the table is as it was left: %v", ok)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// connections are all that pass the node.
func (e *enforced) connections() []policytest.Connection {
	var all []policytest.Connection
	for from, client := range e.at {
		for to, server := range e.at {
			if client == e.beyond() && server == e.beyond() || from.Is4() != to.Is4() {
				continue
			}
			for _, port := range tcpPorts {
				all = append(all, policytest.Connection{From: from, To: to, Protocol: v1.ProtocolTCP, Port: port})
			}
			for _, port := range udpPorts {
				all = append(all, policytest.Connection{From: from, To: to, Protocol: v1.ProtocolUDP, Port: port})
			}
		}
	}
	return all
}

// compare tries connections concurrently, and returns those that pass but should not, or the other way round.
func (e *enforced) compare(t *testing.T, connections []policytest.Connection) {
	t.Helper()
	var wait stdsync.WaitGroup
	slots := make(chan struct{}, 100)
	var allowed, denied int
	for _, of := range connections {
		want := e.cluster.Allowed(policytest.Node, of)
		timeout := deniedFor
		if want {
			timeout = allowedFor
			allowed++
		} else {
			denied++
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			got, err := e.reaches(e.at[of.From], of.From, netip.AddrPortFrom(of.To, uint16(of.Port)),
				of.Protocol, timeout)
			if err != nil || got != want {
				t.Errorf("%+v passes: %v, %v, want %v", of, got, err, want)
			}
		})
	}
	wait.Wait()
	t.Logf("%d connections allowed, %d denied", allowed, denied)
	if t.Failed() {
		for _, policy := range e.cluster.Policies {
			t.Logf("%s/%s: %+v", policy.Namespace, policy.Name, policy.Spec)
		}
	}
}

func policyOf(namespace, name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

func ingress(
	from []networkingv1.NetworkPolicyPeer, ports ...networkingv1.NetworkPolicyPort,
) networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: from, Ports: ports}},
	}
}

func egress(
	to []networkingv1.NetworkPolicyPeer, ports ...networkingv1.NetworkPolicyPort,
) networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress:      []networkingv1.NetworkPolicyEgressRule{{To: to, Ports: ports}},
	}
}

func peers(of ...networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer { return of }

func byLabel(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func denyAll(namespace string, types ...networkingv1.PolicyType) *networkingv1.NetworkPolicy {
	return policyOf(namespace, "deny", networkingv1.NetworkPolicySpec{PolicyTypes: types})
}

// handWritten are the policies that people write.
func handWritten() map[string][]*networkingv1.NetworkPolicy {
	in, out := networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	pods := func(selector *metav1.LabelSelector) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{PodSelector: selector}
	}
	namespaces := func(selector *metav1.LabelSelector) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: selector}
	}
	block := func(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
	}
	named := func(name string, protocol v1.Protocol) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr.To(intstr.FromString(name))}
	}
	to := func(first int32, last *int32) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromInt32(first)), EndPort: last}
	}
	one := func(namespace string, spec networkingv1.NetworkPolicySpec) []*networkingv1.NetworkPolicy {
		return []*networkingv1.NetworkPolicy{policyOf(namespace, "p", spec)}
	}
	return map[string][]*networkingv1.NetworkPolicy{
		"none":                   nil,
		"default deny":           {denyAll("a", in, out), denyAll("b", in)},
		"default deny of egress": {denyAll("c", out)},
		"allow over deny":        {denyAll("a", in), policyOf("a", "p", ingress(nil, to(80, nil)))},
		"pods of the namespace":  one("a", ingress(peers(pods(byLabel("app", "x"))))),
		"other namespaces":       one("a", ingress(peers(namespaces(byLabel("tier", "z"))))),
		"pods of other namespaces": one("a", ingress(peers(networkingv1.NetworkPolicyPeer{
			NamespaceSelector: &metav1.LabelSelector{}, PodSelector: byLabel("app", "y"),
		}))),
		"named ports of ingress": one("b", ingress(nil, named("http", v1.ProtocolTCP), named("dns", v1.ProtocolUDP))),
		"named ports of egress": one("b",
			egress(peers(namespaces(byLabel("app", "x"))), named("http", v1.ProtocolTCP))),
		"named ports to anywhere": one("b", egress(nil, named("http", v1.ProtocolTCP))),
		"range of ports":          one("c", ingress(nil, to(80, ptr.To(int32(81))))),
		"block with exceptions":   one("a", ingress(peers(block("10.244.0.0/16", "10.244.2.0/28", "10.244.1.12/31")))),
		"block of IPv6":           one("a", egress(peers(block("fd00:244::/32", "fd00:244:2::/64")))),
		"all but the pod network": one("a", egress(peers(block("0.0.0.0/0", "10.0.0.0/8")))),
		"everything by an empty":  one("a", ingress(nil)),
		"UDP to a namespace alone": one("c", egress(peers(namespaces(byLabel("app",
			"x"))), networkingv1.NetworkPolicyPort{
			Protocol: ptr.To(v1.ProtocolUDP),
		})),
	}
}

// Packets pass the node as documented, in whatever order policies are applied.
func TestPackets(t *testing.T) {
	e := newEnforced(t)
	all := e.connections()
	for name, policies := range handWritten() {
		t.Run(name, func(t *testing.T) {
			e.setPolicies(t, policies...)
			e.compare(t, policytest.Sample(policytest.NewRandom(1), all, 350))
		})
	}
	for seed := range uint64(12) {
		t.Run(fmt.Sprintf("random %d", seed), func(t *testing.T) {
			r := policytest.NewRandom(seed)
			var policies []*networkingv1.NetworkPolicy
			for range 1 + r.IntN(5) {
				policies = append(policies, r.Policy())
			}
			e.setPolicies(t, policies...)
			e.compare(t, policytest.Sample(r, all, 350))
		})
	}
}

// What no policy can deny: the node reaches its pods and they reach it, a pod itself, by a Service, too.
func TestPacketsThatAlwaysPass(t *testing.T) {
	e := newEnforced(t)
	in, out := networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	e.setPolicies(t, denyAll("a", in, out), denyAll("b", in, out), denyAll("c", in, out))
	// A Service of pod 0, as kube-proxy has it.
	pod, other := podIPs(1, 0)[0], podIPs(1, 1)[0]
	netnstest.NFT(t, e.node(), fmt.Sprintf(`add table ip service
add chain ip service prerouting { type nat hook prerouting priority -100 ; }
add rule ip service prerouting ip daddr 10.96.0.1 tcp dport 443 dnat to %s:8080
add chain ip service postrouting { type nat hook postrouting priority 100 ; }
add rule ip service postrouting ct status dnat ip saddr %s ip daddr %s masquerade
`, pod, pod, pod))
	service := netip.MustParseAddrPort("10.96.0.1:443")
	listenAtNode(t, e)
	for _, test := range []struct {
		name, namespace string
		to              netip.AddrPort
		want            bool
	}{
		{"probe of the node", e.node(), netip.AddrPortFrom(pod, 80), true},
		{"probe of the node, IPv6", e.node(), netip.AddrPortFrom(podIPs(1, 0)[1], 80), true},
		{"pod to its node", e.at[pod], netip.AddrPortFrom(netip.MustParseAddr(nodeIP), 80), true},
		{"pod to its node's bridge", e.at[pod], netip.MustParseAddrPort("10.244.1.1:80"), true},
		{"pod to itself by a Service", e.at[pod], service, true},
		{"pod to another by a Service", e.at[other], service, false},
		{"another node", e.beyond(), netip.AddrPortFrom(pod, 80), false},
	} {
		timeout := deniedFor
		if test.want {
			timeout = allowedFor
		}
		got, err := e.reaches(test.namespace, netip.Addr{}, test.to, v1.ProtocolTCP, timeout)
		if got != test.want || err != nil {
			t.Errorf("%s passes: %v, %v, want %v", test.name, got, err, test.want)
		}
	}
	// A policy applies to a Service's traffic by its destination pod.
	e.setPolicies(t, denyAll("b", out), policyOf("b", "p", egress(peers(networkingv1.NetworkPolicyPeer{
		IPBlock: &networkingv1.IPBlock{CIDR: pod.String() + "/32"},
	}), networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromInt32(8080))})))
	if got, err := e.reaches(e.at[other], netip.Addr{}, service, v1.ProtocolTCP, allowedFor); !got || err != nil {
		t.Errorf("the Service of an allowed pod is reached: %v, %v", got, err)
	}
}

// listenAtNode answers at the node's own addresses.
func listenAtNode(t *testing.T, e *enforced) {
	t.Helper()
	e.at[netip.MustParseAddr(nodeIP)], e.at[netip.MustParseAddr("10.244.1.1")] = e.node(), e.node()
	only := &network{at: map[netip.Addr]string{}}
	for addr, namespace := range e.at {
		if namespace == e.node() {
			only.at[addr] = namespace
		}
	}
	only.serve(t, []int32{80}, nil)
}

// A pod whose address the API does not tell yet is held if a policy may select it, and others are not.
func TestPacketsOfStartingPods(t *testing.T) {
	e := newEnforced(t)
	e.setPolicies(t, denyAll("a", networkingv1.PolicyTypeIngress))
	known, unknown := podIPs(1, 1)[0], podIPs(1, 0)[0]
	starting := e.cluster.Pods[0].DeepCopy() // of namespace a
	starting.Status = v1.PodStatus{Phase: v1.PodPending}
	setPod(e.index, starting)
	e.sync(t)
	for to, want := range map[netip.Addr]bool{known: true, unknown: false} {
		timeout := map[bool]time.Duration{true: allowedFor, false: deniedFor}[want]
		got, err := e.reaches(e.at[podIPs(1, 2)[0]], netip.Addr{}, netip.AddrPortFrom(to, 80), v1.ProtocolTCP, timeout)
		if got != want || err != nil {
			t.Errorf("%s is reached: %v, %v, want %v", to, got, err, want)
		}
	}
}

// The kernel's table is found out to be altered, and to be whole after a sync.
func TestKernelTableIsKept(t *testing.T) {
	e := newEnforced(t)
	e.setPolicies(t, handWritten()["block with exceptions"]...)
	m := e.index.Current()
	keys, groups := slices.Collect(maps.Keys(m.Policies)), slices.Collect(maps.Keys(m.Groups))
	policy, rules := policyChain(keys[0]), len(policyRules(keys[0].Direction, m.Policies[keys[0]]))
	for name, script := range map[string]string{
		"everything flushed":  "flush ruleset",
		"table deleted":       "delete table inet network-policy",
		"table dormant":       "add table inet network-policy { flags dormant ; }",
		"base chain flushed":  "flush chain inet network-policy forward-ingress",
		"group flushed":       "flush chain inet network-policy " + groupChain(groups[0]),
		"policy flushed":      "flush chain inet network-policy " + policy,
		"policy replaced":     replaced(policy, rules),
		"base chain replaced": replaced("forward-ingress", len(baseRules(model.Ingress))),
		"map flushed":         "flush map inet network-policy ingress-pods-v4",
		"rule added":          "add rule inet network-policy forward-egress accept",
		"element replaced": fmt.Sprintf("delete element inet network-policy local-pods-v4 { %s }\n"+
			"add element inet network-policy local-pods-v4 { 10.9.9.9 }", podIPs(1, 0)[0]),
	} {
		t.Run(name, func(t *testing.T) {
			e.check(t, true)
			netnstest.NFT(t, e.node(), "add table inet other\ndelete table inet other\n")
			e.check(t, true)
			netnstest.NFT(t, e.node(), script+"\n")
			e.check(t, false)
			e.table.Invalidate()
			e.sync(t)
		})
	}
	e.check(t, true)
	if err := netnstest.In(e.node(), func() error { return e.table.Cleanup(t.Context()) }); err != nil {
		t.Fatal(err)
	}
}

// replaced is a script that puts as many other rules into a chain as it has.
func replaced(chain string, rules int) string {
	return "flush chain inet network-policy " + chain + strings.Repeat("\nadd rule inet network-policy "+chain+" accept", rules)
}
