package nft

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/policy/compile"
	"quintet.dev/quintet/components/policy/model"
	"quintet.dev/quintet/components/policy/policytest"
	"quintet.dev/quintet/internal/nftcheck/nftchecktest"
)

func newFake() (*Table, *knftables.Fake) {
	fake := knftables.NewFake(knftables.InetFamily, tableName)
	return New(fake, &nftchecktest.Kernel{Fake: fake}), fake
}

// dump is the table's content, sorted: the order of chains and elements means nothing.
func dump(fake *knftables.Fake) string {
	lines := strings.Split(strings.TrimSpace(fake.Dump()), "\n")
	slices.SortStableFunc(lines, func(a, b string) int {
		rules := strings.HasPrefix(a, "add rule") && strings.HasPrefix(b, "add rule")
		if rules && strings.Fields(a)[4] == strings.Fields(b)[4] {
			return 0 // the order of a chain's rules does
		}
		return strings.Compare(a, b)
	})
	return strings.Join(lines, "\n")
}

func sync(t testing.TB, table *Table, x *compile.Index) {
	t.Helper()
	if err := table.Sync(t.Context(), x.Current(), x.Take()); err != nil {
		t.Fatal(err)
	}
}

func sweep(t testing.TB, table *Table) {
	t.Helper()
	if err := table.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func setPod(x *compile.Index, pod *v1.Pod) {
	if of, ok := compile.PodOf(pod, policytest.Node); ok {
		x.SetPod(of)
	} else {
		x.DeletePod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

// dbPod runs on another node.
func dbPod(addr string) *v1.Pod {
	return policytest.Pod("a", "db", "node-2", map[string]string{"app": "db"}, 80, 53, netip.MustParseAddr(addr))
}

// web has a pod here, one elsewhere, and a policy that admits some of each.
func web() *compile.Index {
	x := compile.New()
	x.SetPodCIDRs([]netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:244:1::/64")})
	x.SetNamespace("a", labels.Set{"team": "x"})
	setPod(x, policytest.Pod("a", "web", policytest.Node, map[string]string{"app": "web"}, 8080, 53,
		netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("fd00:244:1::2")))
	setPod(x, dbPod("10.244.2.2"))
	if err := x.SetPolicy(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{
					{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}},
					{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/30", Except: []string{"10.0.0.1/32"}}},
				},
				Ports: []networkingv1.NetworkPolicyPort{
					{Port: ptr.To(intstr.FromString("http"))},
					{Port: ptr.To(intstr.FromInt32(9000)), EndPort: ptr.To(int32(9010))},
				},
			}},
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				Ports: []networkingv1.NetworkPolicyPort{
					{Protocol: ptr.To(v1.ProtocolUDP), Port: ptr.To(intstr.FromInt32(53))},
					{Protocol: ptr.To(v1.ProtocolUDP), Port: ptr.To(intstr.FromInt32(5353))},
				},
			}},
		},
	}); err != nil {
		panic(err)
	}
	return x
}

func TestRules(t *testing.T) {
	table, fake := newFake()
	sync(t, table, web())
	got := fake.Dump()
	for _, want := range []string{
		"add chain inet network-policy forward-ingress { type filter hook forward priority 0 ; }",
		"forward-ingress ct state established,related accept",
		"forward-ingress ip daddr vmap @ingress-pods-v4", "forward-egress ip6 saddr vmap @egress-pods-v6",
		"element inet network-policy ingress-pods-v4 { 10.244.1.2 : goto ingress-group-",
		"element inet network-policy egress-pods-v6 { fd00:244:1::2 : goto egress-group-",
		"element inet network-policy same-pod-v4 { 10.244.1.2 . 10.244.1.2 }",
		"tcp dport 9000-9010 accept", "udp dport { 53, 5353 } accept", "ip daddr . meta l4proto . th dport @ports-",
		"{ 10.244.1.2 . tcp . 8080 }", "{ 10.0.0.0 }", "{ 10.0.0.2-10.0.0.3 }", "-v4 { 10.244.2.2 }",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if deny := "ingress-pods-v4 { 10.244.2.2"; strings.Contains(got, deny) {
		t.Errorf("%q in\n%s", deny, got)
	}
}

// A pod of this node without an address is isolated all the same, as soon as a policy selects it.
func TestStartingPodsAreIsolated(t *testing.T) {
	table, fake := newFake()
	x := web()
	hold := "ingress-starting ip daddr { 10.244.1.0/24 } ip daddr != @local-pods-v4 drop"
	has := func(want bool) {
		t.Helper()
		sync(t, table, x)
		if strings.Contains(fake.Dump(), hold) != want {
			t.Errorf("%q is %v in\n%s", hold, !want, fake.Dump())
		}
	}
	has(false)
	setPod(x, policytest.Pod("a", "other", policytest.Node, nil, 80, 53))
	has(false)
	labels := map[string]string{"app": "web"}
	setPod(x, policytest.Pod("a", "web-2", policytest.Node, labels, 80, 53))
	has(true)
	setPod(x, policytest.Pod("a", "web-2", policytest.Node, labels, 80, 53, netip.MustParseAddr("10.244.1.3")))
	has(false)
}

// Whatever the order of changes, the table is that of a fresh start.
func TestChangesGiveWhatAFreshStartGives(t *testing.T) {
	for seed := range uint64(150) {
		r := policytest.NewRandom(seed)
		table, fake := newFake()
		x := compile.New()
		x.SetPodCIDRs([]netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")})
		for range 25 {
			for range 1 + r.IntN(3) {
				change(r, x)
			}
			sync(t, table, x)
			if r.IntN(3) == 0 {
				sweep(t, table)
			}
		}
		sweep(t, table)
		fresh, want := newFake()
		if err := fresh.Sync(t.Context(), x.Current(), x.Take()); err != nil {
			t.Fatal(err)
		}
		if got, want := dump(fake), dump(want); got != want {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, got, want)
		}
		if ok, err := table.Check(x.Current()); !ok || err != nil {
			t.Fatalf("seed %d: the table is altered: %v, %v", seed, !ok, err)
		}
	}
}

func change(r policytest.Random, x *compile.Index) {
	switch r.IntN(7) {
	case 0:
		x.SetNamespace(r.Namespace(), r.Labels())
	case 1, 2:
		if err := x.SetPolicy(r.Policy()); err != nil {
			panic(err)
		}
	case 3:
		policy := r.Policy()
		x.DeletePolicy(types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name})
	case 4:
		pod := r.Pod()
		x.DeletePod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	default:
		setPod(x, r.Pod())
	}
}

// What another program alters is found out, and the next sync brings everything back.
func TestAlteredTableIsRebuilt(t *testing.T) {
	for name, alter := range map[string]func(*knftables.Transaction, *knftables.Fake){
		"table deleted": func(tx *knftables.Transaction, _ *knftables.Fake) { tx.Delete(&knftables.Table{}) },
		"chain flushed": func(tx *knftables.Transaction, _ *knftables.Fake) {
			tx.Flush(&knftables.Chain{Name: baseChain(model.Ingress)})
		},
		"map flushed": func(tx *knftables.Transaction, _ *knftables.Fake) {
			tx.Flush(&knftables.Map{Name: podsMap(model.Egress, families()[0])})
		},
		"rule added": func(tx *knftables.Transaction, _ *knftables.Fake) {
			tx.Add(&knftables.Rule{Chain: baseChain(model.Egress), Rule: "accept"})
		},
		"chain added": func(tx *knftables.Transaction, _ *knftables.Fake) { tx.Add(&knftables.Chain{Name: "mine"}) },
		"sets flushed": func(tx *knftables.Transaction, fake *knftables.Fake) {
			for set := range fake.Table.Sets {
				tx.Flush(&knftables.Set{Name: set})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, fake := newFake()
			x := web()
			sync(t, table, x)
			before := dump(fake)
			check := func(want bool) {
				t.Helper()
				if ok, err := table.Check(x.Current()); ok != want || err != nil {
					t.Fatalf("the table is as it was left: %v, %v", ok, err)
				}
			}
			check(true)
			tx := fake.NewTransaction()
			alter(tx, fake)
			if err := fake.Run(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			check(false)
			table.Invalidate()
			sync(t, table, x)
			if got := dump(fake); got != before {
				t.Errorf("got\n%s\nwant\n%s", got, before)
			}
		})
	}
}

// A change that the kernel refuses, as the table is gone, writes everything.
func TestRefusedChangeRebuilds(t *testing.T) {
	table, fake := newFake()
	x := web()
	sync(t, table, x)
	tx := fake.NewTransaction()
	tx.Delete(&knftables.Table{})
	if err := fake.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	setPod(x, dbPod("10.244.2.3"))
	sync(t, table, x)
	if got := fake.Dump(); !strings.Contains(got, "-v4 { 10.244.2.3 }") ||
		!strings.Contains(got, "goto ingress-group-") {
		t.Errorf("the table is not whole:\n%s", got)
	}
}
