package bench

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/policy/compile"
	"quintet.dev/quintet/components/policy/nft"
)

// Sizes of the namespaces whose policies change.
const (
	fewPolicyPods  = 10
	manyPolicyPods = 1000
	// localPolicyPods are on the node whose rules are measured, of the larger namespace: as many as a node takes.
	localPolicyPods = 110
	policyChanges   = 21
)

// policyTables measures how long a change of a policy takes from the object to the kernel, in a namespace of many pods
// against one of few. It needs root, for network namespaces.
func policyTables(ctx context.Context, _ Options) ([]Measure, error) {
	few, err := inNamespace(func() (policyTimes, error) { return measurePolicies(ctx, fewPolicyPods) })
	if err != nil {
		return nil, err
	}
	many, err := inNamespace(func() (policyTimes, error) { return measurePolicies(ctx, manyPolicyPods) })
	of := func(what string, many, few time.Duration) Measure {
		return Measure{Name: fmt.Sprintf("policy %s, %d pods", what, manyPolicyPods), Value: milliseconds(many), Unit: "ms",
			Limit: milliseconds(few), Against: fmt.Sprintf("with %d pods, ms", fewPolicyPods), Aim: "≤ 100 ms"}
	}
	return []Measure{
		of("created", many.created, few.created), of("changed", many.changed, few.changed),
		of("deleted", many.deleted, few.deleted),
	}, err
}

// policyTimes are medians.
type policyTimes struct{ created, changed, deleted time.Duration }

// measurePolicies has a policy come, change and go in a namespace whose pods it all selects and names as peers.
func measurePolicies(ctx context.Context, pods int) (policyTimes, error) {
	table, kernel, err := nft.Open()
	if err != nil {
		return policyTimes{}, err
	}
	r := policyRig{nft.New(table, kernel), compile.New()}
	r.index.SetNamespace(policyNamespace, nil)
	for i := range pods {
		if pod, ok := compile.PodOf(policyPod(i), policyNode); ok {
			r.index.SetPod(pod)
		}
	}
	if err := r.index.SetPolicy(policyOf("base", "none")); err != nil {
		return policyTimes{}, err
	}
	if _, err := r.sync(ctx); err != nil {
		return policyTimes{}, err
	}
	return r.times(ctx)
}

// policyRig compiles policies and writes them to the kernel, as the program network-policy does.
type policyRig struct {
	table *nft.Table
	index *compile.Index
}

// sync writes what changed and returns how long that took.
func (r *policyRig) sync(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	err := r.table.Sync(ctx, r.index.Current(), r.index.Take())
	return time.Since(begin), err
}

// timed makes a change and writes it.
func (r *policyRig) timed(ctx context.Context, change func() error) (time.Duration, error) {
	begin := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	_, err := r.sync(ctx)
	return time.Since(begin), err
}

func (r *policyRig) times(ctx context.Context) (policyTimes, error) {
	set := func(peers string) func() error {
		return func() error { return r.index.SetPolicy(policyOf("other", peers)) }
	}
	steps := []func() error{set("web"), set("none"), func() error {
		r.index.DeletePolicy(types.NamespacedName{Namespace: policyNamespace, Name: "other"})
		return nil
	}}
	took := make([][]time.Duration, len(steps))
	for range policyChanges {
		for i, step := range steps {
			d, err := r.timed(ctx, step)
			if err != nil {
				return policyTimes{}, err
			}
			took[i] = append(took[i], d)
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	const middle = policyChanges / 2
	return policyTimes{took[0][middle], took[1][middle], took[2][middle]}, nil
}

const (
	policyNamespace = "bench"
	policyNode      = "node-1"
)

// policyPod is the i-th pod of the namespace, on the measured node or another.
func policyPod(i int) *corev1.Pod {
	node := policyNode
	if i >= localPolicyPods {
		node = "node-2"
	}
	ip := netip.AddrFrom4([4]byte{10, 244, byte(i / 250), byte(1 + i%250)}).String()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: policyNamespace, Name: fmt.Sprintf("pod-%d", i),
			Labels: map[string]string{"app": "web"}},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip},
	}
}

// policyOf selects all pods and admits those of an app, in both directions.
func policyOf(name, peers string) *networkingv1.NetworkPolicy {
	app := []networkingv1.NetworkPolicyPeer{{
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": peers}},
	}}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: policyNamespace, Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: app}},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{To: app}},
		},
	}
}
