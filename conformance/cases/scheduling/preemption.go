package scheduling

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func ofPreemption() []suite.Case {
	return []suite.Case{
		{ID: "scheduling/preemption", Run: preemption, Reference: preempting + "#preemption",
			Requirement: "A pod of higher priority that fits nowhere MUST have the node nominated where a pod of " +
				"lower priority is deleted for it, which says so, and be bound when that is gone."},
		{ID: "scheduling/preemption-least", Run: preemptionLeast, Reference: preempting + "#preemption",
			Requirement: "Of the nodes where preemption helps, the one MUST be taken whose victims have the lowest " +
				"priority."},
		{ID: "scheduling/preemption-reprieve", Run: preemptionReprieve, Reference: preempting + "#preemption",
			Requirement: "Of a node's pods only as many MUST be preempted as are in the way, those of lowest " +
				"priority."},
		{ID: "scheduling/preemption-budget", Run: preemptionBudget,
			Reference: preempting + "#poddisruptionbudget-is-supported-but-not-guaranteed",
			Requirement: "Preemption MUST prefer victims whose disruption budgets allow it, and take protected ones " +
				"where there are no others."},
		{ID: "scheduling/preemption-never", Run: preemptionNever, Reference: preempting + "#non-preempting-priority-class",
			Requirement: "A pod whose priority class has preemptionPolicy Never MUST wait for capacity."},
		{ID: "scheduling/preemption-useless", Run: preemptionUseless, Reference: preempting + "#preemption",
			Requirement: "No pod MUST be preempted where its absence would not let the pod in, and none of the same " +
				"priority."},
	}
}

// ofClass returns a change that gives a pod a priority class and an amount of CPU.
func ofClass(class, amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.PriorityClassName = class
		cpu(amount)(p)
	}
}

// preempted waits until a pod is being deleted for another one's sake.
func preempted(ctx context.Context, t *suite.T, name string) {
	victim := suite.WaitFor(ctx, t, "pod "+name+" preempted", t.GetPod(name),
		HaveField("DeletionTimestamp", Not(BeNil())))
	t.Expect(victim.Status.Conditions).To(ContainElement(And(
		HaveField("Type", corev1.DisruptionTarget), HaveField("Status", corev1.ConditionTrue),
		HaveField("Reason", corev1.PodReasonPreemptionByScheduler))))
}

func preemption(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	place(ctx, t, pod(t, "victim", ofClass(createClass(ctx, t, 100), "800m")))
	t.CreatePod(ctx, pod(t, "important", ofClass(createClass(ctx, t, 1000), "800m")))
	preempted(ctx, t, "victim")
	suite.WaitFor(ctx, t, "the node nominated", t.GetPod("important"),
		HaveField("Status.NominatedNodeName", Equal(node)))
	suite.Never(ctx, t, "the pod bound before its victim is gone", t.GetPod("important"),
		HaveField("Spec.NodeName", Not(BeEmpty())))
	remove(ctx, t, "victim")
	t.Expect(bound(ctx, t, "important")).To(Equal(node))
}

// preemptionLeast: of the nodes where room can be made, the one is taken whose victims matter least.
func preemptionLeast(ctx context.Context, t *suite.T) {
	for name, value := range map[string]int32{"a": 300, "b": 100, "c": 200} {
		addNode(ctx, t, name, nil)
		place(ctx, t, pod(t, "on-"+name, on(name, ofClass(createClass(ctx, t, value), "800m"))))
	}
	t.CreatePod(ctx, pod(t, "important", ofClass(createClass(ctx, t, 1000), "800m")))
	preempted(ctx, t, "on-b")
	remove(ctx, t, "on-b")
	t.Expect(bound(ctx, t, "important")).To(Equal(t.Namespace + "-b"))
	for _, name := range []string{"on-a", "on-c"} {
		t.Expect(t.GetPod(name)(ctx)).To(HaveField("DeletionTimestamp", BeNil()))
	}
}

// preemptionReprieve: no pod goes that could have stayed.
func preemptionReprieve(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "only", nil)
	low, middle := createClass(ctx, t, 100), createClass(ctx, t, 200)
	place(ctx, t, pod(t, "low", ofClass(low, "400m")))
	place(ctx, t, pod(t, "middle", ofClass(middle, "400m")))
	t.CreatePod(ctx, pod(t, "important", ofClass(createClass(ctx, t, 1000), "500m")))
	preempted(ctx, t, "low")
	remove(ctx, t, "low")
	bound(ctx, t, "important")
	t.Expect(t.GetPod("middle")(ctx)).To(HaveField("DeletionTimestamp", BeNil()))
}

func preemptionBudget(ctx context.Context, t *suite.T) {
	low := createClass(ctx, t, 100)
	for _, name := range []string{"a", "b"} {
		addNode(ctx, t, name, nil)
		place(ctx, t, pod(t, "on-"+name, on(name, ofClass(low, "800m"))))
	}
	budgets := t.Client.PolicyV1().PodDisruptionBudgets(t.Namespace)
	_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "on-a"}}}}, metav1.CreateOptions{})
	t.Must(err, "create the budget")
	t.CreatePod(ctx, pod(t, "important", ofClass(createClass(ctx, t, 1000), "800m")))
	preempted(ctx, t, "on-b")
	remove(ctx, t, "on-b")
	bound(ctx, t, "important")
	t.Expect(t.GetPod("on-a")(ctx)).To(HaveField("DeletionTimestamp", BeNil()), "the pod that its budget protects")
	// Budgets are kept where it can be: where only protected pods are in the way, they go.
	t.CreatePod(ctx, pod(t, "urgent", on("a", ofClass(createClass(ctx, t, 2000), "800m"))))
	preempted(ctx, t, "on-a")
}

func preemptionNever(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "only", nil)
	place(ctx, t, pod(t, "holder", ofClass(createClass(ctx, t, 100), "800m")))
	name := t.Namespace + "-never"
	_, err := t.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1000,
		PreemptionPolicy: ptr.To(corev1.PreemptNever)}, metav1.CreateOptions{})
	t.Must(err, "create the priority class")
	t.Cleanup(func(ctx context.Context) {
		_ = t.Client.SchedulingV1().PriorityClasses().Delete(ctx, name, metav1.DeleteOptions{})
	})
	t.CreatePod(ctx, pod(t, "patient", ofClass(name, "800m")))
	refused(ctx, t, "patient")
	suite.Never(ctx, t, "a victim of a pod that preempts none", t.GetPod("holder"),
		HaveField("DeletionTimestamp", Not(BeNil())))
	remove(ctx, t, "holder")
	bound(ctx, t, "patient")
}

// preemptionUseless: where the absence of pods would not help, none goes.
func preemptionUseless(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "only", nil)
	low, high := createClass(ctx, t, 100), createClass(ctx, t, 1000)
	place(ctx, t, pod(t, "bystander", ofClass(low, "100m")))
	t.CreatePod(ctx, pod(t, "peer", ofClass(low, "950m")))
	t.Expect(refused(ctx, t, "peer").Message).To(ContainSubstring("No preemption victims found for incoming pod"))
	t.CreatePod(ctx, pod(t, "huge", ofClass(high, "2")))
	t.CreatePod(ctx, pod(t, "elsewhere", on("no-such-node", ofClass(high, "100m"))))
	for _, name := range []string{"huge", "elsewhere"} {
		t.Expect(refused(ctx, t, name).Message).To(ContainSubstring("Preemption is not helpful for scheduling"))
	}
	suite.Never(ctx, t, "the bystander preempted", t.GetPod("bystander"),
		HaveField("DeletionTimestamp", Not(BeNil())))
}
