package nft

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/policy/compile"
	"quintet.dev/quintet/components/policy/policytest"
	"quintet.dev/quintet/internal/netnstest"
)

// The namespace of the benchmarks has so many pods, of which some are on this node; the last case has all of them
// there.
const benchPods = 1000

// BenchmarkPolicy has the kernel enforce a policy of a namespace with 1,000 pods that comes, and one that goes.
func BenchmarkPolicy(b *testing.B) {
	for _, local := range []int{20, 110, benchPods} {
		for _, goes := range []bool{false, true} {
			b.Run(fmt.Sprintf("local=%d/goes=%v", local, goes), func(b *testing.B) {
				table, x := benchTable(b, local)
				_ = x.SetPolicy(benchPolicy("base", "app", "none"))
				sync(b, table, x)
				timed := func(wanted bool, change func()) {
					if wanted {
						b.StartTimer()
						defer b.StopTimer()
					}
					change()
					sync(b, table, x)
				}
				b.StopTimer()
				b.ResetTimer()
				for range b.N {
					timed(!goes, func() { _ = x.SetPolicy(benchPolicy("other", "app", "web")) })
					timed(goes, func() { x.DeletePolicy(types.NamespacedName{Namespace: "big", Name: "other"}) })
				}
			})
		}
	}
}

// BenchmarkRuleChange changes the peers of a policy that selects all pods of the namespace.
func BenchmarkRuleChange(b *testing.B) {
	table, x := benchTable(b, 110)
	for i := 0; b.Loop(); i++ {
		_ = x.SetPolicy(benchPolicy("p", "app", []string{"web", "none"}[i%2]))
		sync(b, table, x)
	}
}

// BenchmarkPod has a pod of another node come and go.
func BenchmarkPod(b *testing.B) {
	table, x := benchTable(b, 110)
	_ = x.SetPolicy(benchPolicy("p", "app", "web"))
	sync(b, table, x)
	pod := policytest.Pod("big", "new", "node-2", map[string]string{"app": "web"}, 80, 53,
		netip.MustParseAddr("10.9.0.1"))
	for b.Loop() {
		setPod(x, pod)
		sync(b, table, x)
		x.DeletePod(types.NamespacedName{Namespace: "big", Name: "new"})
		sync(b, table, x)
	}
}

// benchTable is a table in a network namespace of its own.
func benchTable(b *testing.B, local int) (*Table, *compile.Index) {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("network namespaces need root")
	}
	name := fmt.Sprintf("netpolbench%d", os.Getpid())
	if err := exec.Command("ip", "netns", "add", name).Run(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	x := compile.New()
	x.SetNamespace("big", nil)
	for i := range benchPods {
		node := "node-2"
		if i < local {
			node = policytest.Node
		}
		setPod(x, policytest.Pod("big", fmt.Sprintf("p%d", i), node, map[string]string{"app": "web"}, 80, 53,
			netip.AddrFrom4([4]byte{10, 244, byte(i / 200), byte(1 + i%200)})))
	}
	var table *Table
	if err := netnstest.In(name, func() error {
		nft, _, err := Open()
		if err != nil {
			return err
		}
		table = New(inNamespaceOf{nft, name}, nil)
		return table.Sync(context.Background(), x.Current(), x.Take())
	}); err != nil {
		b.Fatal(err)
	}
	return table, x
}

// benchPolicy selects all pods and admits those with a label, in both directions.
func benchPolicy(name, key, value string) *networkingv1.NetworkPolicy {
	from := peers(networkingv1.NetworkPolicyPeer{PodSelector: byLabel(key, value)})
	return policyOf("big", name, networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: from}},
		Egress:      []networkingv1.NetworkPolicyEgressRule{{To: from}},
	})
}
