package scheduling

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/conformance/suite"
)

func ofNodes() []suite.Case {
	return []suite.Case{
		{ID: "scheduling/taint-preferred", Run: taintPreferred, Reference: taints,
			Requirement: "A node with a PreferNoSchedule taint MUST be avoided while another one fits, and taken " +
				"otherwise."},
		{ID: "scheduling/tolerations", Run: tolerations, Reference: taints,
			Requirement: "A toleration MUST match a taint by key, operator, value and effect, and by no less."},
		{ID: "scheduling/node-affinity-operators", Run: nodeAffinityOperators, Reference: assign + "#operators",
			Requirement: "Every operator of node affinity MUST select by its meaning; of terms one suffices, of a " +
				"term's expressions all count."},
		{ID: "scheduling/node-relabeled", Run: relabeled, Reference: assign + "#nodeselector",
			Requirement: "A pod that no node suits MUST be bound once a node gets the labels that it asks for."},
		{ID: "scheduling/other-scheduler", Run: otherScheduler,
			Reference:   "https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/",
			Requirement: "A pod with another schedulerName MUST be left alone."},
		{ID: "scheduling/gates-open", Run: gatesOpen, Reference: readiness + "#mutable-pod-scheduling-directives",
			Requirement: "A pod MUST be bound only when all its gates are gone, by the node selector that it has " +
				"then."},
	}
}

func tainted(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "team", Value: "red", Effect: effect})
	}
}

func taintPreferred(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "tainted", tainted(corev1.TaintEffectPreferNoSchedule))
	clean := addNode(ctx, t, "clean", nil)
	t.Expect(place(ctx, t, pod(t, "first", cpu("600m")))).To(Equal(clean))
	t.Expect(place(ctx, t, pod(t, "second", cpu("600m")))).To(Equal(t.Namespace+"-tainted"),
		"the taint does not forbid where nothing else is free")
}

// tolerations: which of them tolerates a taint is decided by key, operator, value and effect.
func tolerations(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "tainted", tainted(corev1.TaintEffectNoExecute))
	tolerating := func(name string, toleration corev1.Toleration) *corev1.Pod {
		return pod(t, name, func(p *corev1.Pod) {
			cpu("10m")(p)
			p.Spec.Tolerations = append(p.Spec.Tolerations, toleration)
		})
	}
	for name, toleration := range map[string]corev1.Toleration{
		"other-value":  {Key: "team", Operator: corev1.TolerationOpEqual, Value: "blue"},
		"other-effect": {Key: "team", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		"other-key":    {Key: "crew", Operator: corev1.TolerationOpExists},
	} {
		t.CreatePod(ctx, tolerating(name, toleration))
		t.Expect(refused(ctx, t, name).Message).To(ContainSubstring("untolerated taint"))
	}
	for name, toleration := range map[string]corev1.Toleration{
		"same":       {Key: "team", Value: "red", Effect: corev1.TaintEffectNoExecute},
		"any-value":  {Key: "team", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		"any-effect": {Key: "team", Operator: corev1.TolerationOpEqual, Value: "red"},
		"any":        {Operator: corev1.TolerationOpExists},
	} {
		t.Expect(place(ctx, t, tolerating(name, toleration))).To(Equal(node), "toleration %s", name)
	}
}

// nodeAffinityOperators: each operator of an expression, and terms of which one suffices.
func nodeAffinityOperators(ctx context.Context, t *suite.T) {
	old := addNode(ctx, t, "old", func(n *corev1.Node) { n.Labels["generation"], n.Labels["retired"] = "3", "yes" })
	recent := addNode(ctx, t, "recent", func(n *corev1.Node) { n.Labels["generation"] = "12" })
	require := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			cpu("10m")(p)
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	}
	label := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key,
			Operator: operator, Values: values}}}
	}
	field := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField,
		Operator: corev1.NodeSelectorOpIn, Values: []string{old}}}}
	for _, test := range []struct {
		name, node string
		terms      []corev1.NodeSelectorTerm
	}{
		{"gt", recent, []corev1.NodeSelectorTerm{label("generation", corev1.NodeSelectorOpGt, "5")}},
		{"lt", old, []corev1.NodeSelectorTerm{label("generation", corev1.NodeSelectorOpLt, "5")}},
		{"exists", old, []corev1.NodeSelectorTerm{label("retired", corev1.NodeSelectorOpExists)}},
		{"absent", recent, []corev1.NodeSelectorTerm{label("retired", corev1.NodeSelectorOpDoesNotExist)}},
		{"in", old, []corev1.NodeSelectorTerm{label("generation", corev1.NodeSelectorOpIn, "2", "3")}},
		{"notin", recent, []corev1.NodeSelectorTerm{label("generation", corev1.NodeSelectorOpNotIn, "2", "3")}},
		{"field", old, []corev1.NodeSelectorTerm{field}},
		{"either", recent, []corev1.NodeSelectorTerm{label("generation", corev1.NodeSelectorOpIn, "99"),
			label("generation", corev1.NodeSelectorOpIn, "12")}},
	} {
		t.Expect(place(ctx, t, pod(t, test.name, require(test.terms...)))).To(Equal(test.node), test.name)
	}
	both := label("generation", corev1.NodeSelectorOpIn, "12")
	both.MatchExpressions = append(both.MatchExpressions,
		label("retired", corev1.NodeSelectorOpExists).MatchExpressions...)
	t.CreatePod(ctx, pod(t, "both", require(both)))
	t.Expect(refused(ctx, t, "both").Message).To(ContainSubstring("didn't match Pod's node affinity/selector"))
}

// relabeled: a change of a node is an event that pods wait for.
func relabeled(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	t.CreatePod(ctx, pod(t, "picky", func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = "ssd" }))
	refused(ctx, t, "picky")
	_, err := t.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"disk":"ssd"}}}`), metav1.PatchOptions{})
	t.Must(err, "label the node")
	t.Expect(bound(ctx, t, "picky")).To(Equal(node))
}

func otherScheduler(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	t.CreatePod(ctx, pod(t, "foreign", func(p *corev1.Pod) { p.Spec.SchedulerName = "conformance-other" }))
	t.Expect(place(ctx, t, pod(t, "own", cpu("100m")))).To(Equal(node))
	suite.Never(ctx, t, "a pod of another scheduler touched", t.GetPod("foreign"),
		Or(HaveField("Spec.NodeName", Not(BeEmpty())), HaveField("Status.Conditions", Not(BeEmpty()))))
}

// gatesOpen: of several gates all have to go, and the node selector that is added meanwhile counts.
func gatesOpen(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a", nil)
	b := addNode(ctx, t, "b", nil)
	t.CreatePod(ctx, pod(t, "gated", func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "conformance.quintet.dev/one"},
			{Name: "conformance.quintet.dev/two"}}
	}))
	open := func(body string) {
		_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, "gated", types.MergePatchType, []byte(body),
			metav1.PatchOptions{})
		t.Must(err, "patch the pod")
	}
	open(`{"spec":{"schedulingGates":[{"name":"conformance.quintet.dev/two"}],"nodeSelector":{"name":"b"}}}`)
	// API servers refuse to bind it: that it was tried would show in its condition.
	suite.Never(ctx, t, "the gated pod is tried", t.GetPod("gated"), Or(HaveField("Spec.NodeName", Not(BeEmpty())),
		HaveField("Status.Conditions", Not(ContainElement(And(HaveField("Type", corev1.PodScheduled),
			HaveField("Reason", corev1.PodReasonSchedulingGated)))))))
	open(`{"spec":{"schedulingGates":[]}}`)
	t.Expect(bound(ctx, t, "gated")).To(Equal(b))
}
