package scheduling

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/conformance/suite"
)

func fit(ctx context.Context, t *suite.T) {
	tiny := addNode(ctx, t, "small", nil)
	t.Expect(place(ctx, t, pod(t, "first", cpu("900m")))).To(Equal(tiny))
	large := addNode(ctx, t, "large", nil)
	t.Expect(place(ctx, t, pod(t, "second", cpu("900m")))).To(Equal(large), "the other node is full")
}

func refusal(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a", nil)
	addNode(ctx, t, "b", nil)
	t.CreatePod(ctx, pod(t, "huge", cpu("64")))
	refusedFor(ctx, t, "huge", "2 Insufficient cpu") // before, the nodes may have the taint of new ones
	condition := refused(ctx, t, "huge")
	t.Expect(condition.Reason).To(Equal(corev1.PodReasonUnschedulable))
	t.Expect(condition.Message).To(MatchRegexp(`^0/\d+ nodes are available: .*2 Insufficient cpu`))
	events := func(ctx context.Context) ([]corev1.Event, error) {
		list, err := t.Client.CoreV1().Events(t.Namespace).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=huge,reason=FailedScheduling"})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	suite.WaitFor(ctx, t, "a FailedScheduling event", events, ContainElement(And(
		HaveField("Type", corev1.EventTypeWarning), HaveField("Message", ContainSubstring("2 Insufficient cpu")))))
}

func lateCapacity(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	place(ctx, t, pod(t, "holder", cpu("800m")))
	t.CreatePod(ctx, pod(t, "waiting", cpu("800m")))
	refused(ctx, t, "waiting")
	remove(ctx, t, "holder")
	t.Expect(bound(ctx, t, "waiting")).To(Equal(node))
}

func lateNode(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, pod(t, "early", nil))
	refused(ctx, t, "early")
	node := addNode(ctx, t, "late", nil)
	t.Expect(bound(ctx, t, "early")).To(Equal(node))
}

func taint(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "tainted", func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: "team", Value: "red", Effect: corev1.TaintEffectNoSchedule})
	})
	t.CreatePod(ctx, pod(t, "plain", nil))
	t.Expect(refused(ctx, t, "plain").Message).To(ContainSubstring("untolerated taint"))
	tolerant := pod(t, "tolerant", func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations,
			corev1.Toleration{Key: "team", Value: "red", Effect: corev1.TaintEffectNoSchedule})
	})
	t.Expect(place(ctx, t, tolerant)).To(Equal(node))
	suite.Never(ctx, t, "the pod without toleration is bound", t.GetPod("plain"),
		HaveField("Spec.NodeName", Not(BeEmpty())))
}

func unschedulable(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	t.CreatePod(ctx, pod(t, "early", nil))
	t.Expect(refused(ctx, t, "early").Message).To(ContainSubstring("unschedulable"))
	_, err := t.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType,
		[]byte(`{"spec":{"unschedulable":false}}`), metav1.PatchOptions{})
	t.Must(err, "uncordon the node")
	untaint(ctx, t, node, corev1.TaintNodeUnschedulable)
	t.Expect(bound(ctx, t, "early")).To(Equal(node))
}

func nodeSelector(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "hdd", func(n *corev1.Node) { n.Labels["disk"] = "hdd" })
	ssd := addNode(ctx, t, "ssd", func(n *corev1.Node) { n.Labels["disk"] = "ssd" })
	for i := range 2 {
		p := pod(t, fmt.Sprintf("p%d", i), func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = "ssd" })
		t.Expect(place(ctx, t, p)).To(Equal(ssd))
	}
	t.CreatePod(ctx, pod(t, "third", func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = "ssd" }))
	t.Expect(refused(ctx, t, "third").Message).To(ContainSubstring("didn't match Pod's node affinity/selector"))
}

func nodeAffinity(ctx context.Context, t *suite.T) {
	zone := func(z string) func(*corev1.Node) { return func(n *corev1.Node) { n.Labels["zone"] = z } }
	addNode(ctx, t, "a", zone("a"))
	b := addNode(ctx, t, "b", zone("b"))
	c := addNode(ctx, t, "c", zone("c"))
	term := func(operator corev1.NodeSelectorOperator, zones ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone",
			Operator: operator, Values: zones}}}
	}
	affine := func(preferred string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{term(corev1.NodeSelectorOpNotIn, "a")},
				},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
					{Weight: 100, Preference: term(corev1.NodeSelectorOpIn, preferred)},
				},
			}}
		}
	}
	t.Expect(place(ctx, t, pod(t, "to-b", affine("b")))).To(Equal(b))
	t.Expect(place(ctx, t, pod(t, "to-c", affine("c")))).To(Equal(c))
	t.Expect(place(ctx, t, pod(t, "not-a", affine("a")))).To(BeElementOf(b, c), "required comes before preferred")
}

func hostPort(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a", nil)
	addNode(ctx, t, "b", nil)
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
		cpu("100m")(p)
	}
	first := place(ctx, t, pod(t, "first", port))
	second := place(ctx, t, pod(t, "second", port))
	t.Expect(second).NotTo(Equal(first))
	t.CreatePod(ctx, pod(t, "third", port))
	t.Expect(refused(ctx, t, "third").Message).To(ContainSubstring("didn't have free ports"))
}

func spread(ctx context.Context, t *suite.T) {
	count := map[string]int{addNode(ctx, t, "a", nil): 0, addNode(ctx, t, "b", nil): 0, addNode(ctx, t, "c", nil): 0}
	for i := range 6 {
		count[place(ctx, t, pod(t, fmt.Sprintf("p%d", i), cpu("200m")))]++
	}
	for node, n := range count {
		t.Expect(n).To(Equal(2), "pods on %s of %v", node, count)
	}
}

func gates(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	t.CreatePod(ctx, pod(t, "gated", func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "conformance.quintet.dev/wait"}}
	}))
	t.Expect(refused(ctx, t, "gated").Reason).To(Equal(corev1.PodReasonSchedulingGated))
	suite.Never(ctx, t, "the gated pod is bound", t.GetPod("gated"), HaveField("Spec.NodeName", Not(BeEmpty())))
	_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, "gated", types.MergePatchType,
		[]byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{})
	t.Must(err, "remove the gate")
	t.Expect(bound(ctx, t, "gated")).To(Equal(node))
}

// createClass makes a priority class and returns its name.
func createClass(ctx context.Context, t *suite.T, value int32) string {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", t.Namespace, value)},
		Value: value}
	_, err := t.Client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
	t.Must(err, "create the priority class")
	t.Cleanup(func(ctx context.Context) {
		_ = t.Client.SchedulingV1().PriorityClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})
	})
	return class.Name
}

// longestBackoff is how long schedulers let a pod wait at most before it is tried again, and a bit
// (https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/, podMaxBackoffSeconds).
const longestBackoff = 11 * time.Second

// priority is verified alone: what happens in the cluster meanwhile has pods tried again, and one that just was backs
// off while others are bound.
func priority(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	of := func(class string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.PriorityClassName = class
			cpu("800m")(p)
		}
	}
	// The pod on the node may not be preempted by any pod that waits for it.
	place(ctx, t, pod(t, "holder", of(createClass(ctx, t, 2000))))
	for _, name := range []string{"low-1", "low-2"} {
		t.CreatePod(ctx, pod(t, name, cpu("800m")))
		refused(ctx, t, name)
	}
	t.CreatePod(ctx, pod(t, "high", of(createClass(ctx, t, 1000))))
	refused(ctx, t, "high")
	suite.Never(ctx, t, "a pod is bound to the full node", t.GetPod("high"), HaveField("Spec.NodeName", Not(BeEmpty())))
	// A pod that was refused backs off, the longer the more often; after that all three wait alike.
	select {
	case <-ctx.Done():
	case <-time.After(longestBackoff):
	}
	remove(ctx, t, "holder")
	t.Expect(bound(ctx, t, "high")).To(Equal(node))
	for _, name := range []string{"low-1", "low-2"} {
		suite.Never(ctx, t, name+" is bound too", t.GetPod(name), HaveField("Spec.NodeName", Not(BeEmpty())))
	}
}
