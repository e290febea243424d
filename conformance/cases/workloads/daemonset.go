package workloads

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

// nodeLabel is carried by the nodes that a case makes; its value is the case's namespace.
const nodeLabel = "conformance.quintet.dev/node"

func ofDaemonSets() []suite.Case {
	const daemonSets = "https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/"
	const daemonUpdates = "https://kubernetes.io/docs/tasks/manage-daemon/update-daemon-set/"
	return []suite.Case{
		{ID: "workloads/daemonset-selector", Run: daemonSetSelector, Needs: []suite.Feature{suite.RunsPods},
			Reference:   "https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#running-pods-on-select-nodes",
			Requirement: "A DaemonSet MUST have a pod for each node that it selects, and for no other."},
		{ID: "workloads/daemonset-nodes", Run: daemonSetNodes, Reference: daemonSets,
			Requirement: "A DaemonSet MUST follow its nodes as they come and go, with pods that tolerate a node's " +
				"troubles."},
		{ID: "workloads/daemonset-taints", Run: daemonSetTaints, Reference: daemonSets + "#taints-and-tolerations",
			Requirement: "A DaemonSet MUST have no pod for a node with a taint that its pods do not tolerate."},
		{ID: "workloads/daemonset-rolls", Run: daemonSetRolls, Reference: daemonUpdates,
			Requirement: "An update of a DaemonSet MUST replace no more pods at once than maxUnavailable allows."},
		{ID: "workloads/daemonset-surge", Run: daemonSetSurge, Reference: daemonUpdates,
			Requirement: "With maxSurge a DaemonSet's new pod MUST be ready before the old one of its node is " +
				"deleted."},
		{ID: "workloads/daemonset-on-delete", Run: daemonSetOnDelete, Reference: daemonUpdates,
			Requirement: "With the update strategy OnDelete a DaemonSet's pod MUST get the new template when it is " +
				"deleted."},
		{ID: "workloads/daemonset-failed-pod", Run: daemonSetFailedPod, Reference: daemonSets,
			Requirement: "A DaemonSet's pod that failed MUST be deleted and replaced."},
	}
}

// addNode makes a ready node that exists only in the API, and that only pods with that selector get.
func addNode(ctx context.Context, t *suite.T, name string, taints ...corev1.Taint) string {
	full := t.Namespace + "-" + name
	nodes := t.Client.CoreV1().Nodes()
	t.Cleanup(func(ctx context.Context) { _ = nodes.Delete(ctx, full, metav1.DeleteOptions{}) })
	_, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: full,
		Labels: map[string]string{nodeLabel: t.Namespace}}, Spec: corev1.NodeSpec{Taints: append(taints,
		corev1.Taint{Key: nodeLabel, Value: t.Namespace, Effect: corev1.TaintEffectNoSchedule})}}, metav1.CreateOptions{})
	t.Must(err, "create node %s", full)
	status, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Conformance", LastHeartbeatTime: metav1.Now(),
		LastTransitionTime: metav1.Now()}}}})
	t.Must(err, "encode the status")
	_, err = nodes.Patch(ctx, full, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	t.Must(err, "set the status of node %s", full)
	return full
}

// createDaemonSet creates a set for the nodes that the case made. The case tells when its pods are ready.
func createDaemonSet(ctx context.Context, t *suite.T, name string, change func(*appsv1.DaemonSetSpec)) {
	template := t.ReplicaSet(name, 1).Spec.Template
	unplaced(&template.Spec)
	template.Spec.Tolerations = []corev1.Toleration{{Key: nodeLabel, Operator: corev1.TolerationOpExists}}
	template.Spec.NodeSelector = map[string]string{nodeLabel: t.Namespace}
	spec := appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: template}
	if change != nil {
		change(&spec)
	}
	_, err := t.Client.AppsV1().DaemonSets(t.Namespace).Create(ctx,
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	t.Must(err, "create the daemon set")
}

// nodeOf is the node that a pod of a DaemonSet is meant for: its affinity names it before it is bound.
func nodeOf(pod *corev1.Pod) string {
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].
		MatchFields[0].Values[0]
}

// perNode returns "node version" of the app's living pods.
func perNode(t *suite.T, app string) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		pods, err := living(t, app)(ctx)
		out := []string{}
		for i := range pods {
			out = append(out, fmt.Sprint(nodeOf(&pods[i])[len(t.Namespace)+1:], " ", pods[i].Annotations["version"]))
		}
		return out, err
	}
}

// readyOn has the pods for a node be ready.
func readyOn(ctx context.Context, t *suite.T, app, node, version string) {
	pods, err := living(t, app)(ctx)
	t.Must(err, "list the pods")
	for i := range pods {
		if nodeOf(&pods[i]) == t.Namespace+"-"+node && pods[i].Annotations["version"] == version {
			makeReady(ctx, t, pods[i].Name)
		}
	}
}

func secondDaemon(ctx context.Context, t *suite.T, name string) {
	_, err := t.Client.AppsV1().DaemonSets(t.Namespace).Patch(ctx, name, types.MergePatchType, []byte(secondTemplate),
		metav1.PatchOptions{})
	t.Must(err, "change the template")
}

func daemonSetNodes(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a")
	createDaemonSet(ctx, t, "agent", nil)
	suite.WaitFor(ctx, t, "a pod for the node", perNode(t, "agent"), ConsistOf("a "))
	b := addNode(ctx, t, "b")
	suite.WaitFor(ctx, t, "a pod for the new node", perNode(t, "agent"), ConsistOf("a ", "b "))
	pods, err := living(t, "agent")(ctx)
	t.Must(err, "list the pods")
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable,
		corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure} {
		t.Expect(pods[0].Spec.Tolerations).To(ContainElement(And(HaveField("Key", key),
			HaveField("Operator", corev1.TolerationOpExists))))
	}
	_, err = t.Client.CoreV1().Nodes().Patch(ctx, b, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, nodeLabel), metav1.PatchOptions{})
	t.Must(err, "take the label from the node")
	suite.WaitFor(ctx, t, "no pod for the node that is not selected any more", perNode(t, "agent"), ConsistOf("a "))
}

func daemonSetTaints(ctx context.Context, t *suite.T) {
	red := corev1.Taint{Key: "team", Value: "red", Effect: corev1.TaintEffectNoSchedule}
	addNode(ctx, t, "a")
	addNode(ctx, t, "b", red)
	createDaemonSet(ctx, t, "plain", nil)
	createDaemonSet(ctx, t, "tolerant", func(spec *appsv1.DaemonSetSpec) {
		spec.Template.Spec.Tolerations = append(spec.Template.Spec.Tolerations,
			corev1.Toleration{Key: "team", Operator: corev1.TolerationOpExists})
	})
	suite.WaitFor(ctx, t, "a pod for each node", perNode(t, "tolerant"), ConsistOf("a ", "b "))
	suite.WaitFor(ctx, t, "a pod for the node without the taint", perNode(t, "plain"), ConsistOf("a "))
	suite.Never(ctx, t, "a pod for the tainted node", perNode(t, "plain"), ContainElement("b "))
}

func daemonSetRolls(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a")
	addNode(ctx, t, "b")
	createDaemonSet(ctx, t, "roll", nil)
	for _, node := range []string{"a", "b"} {
		suite.WaitFor(ctx, t, "a pod for the node", perNode(t, "roll"), ContainElement(node+" "))
		readyOn(ctx, t, "roll", node, "")
	}
	secondDaemon(ctx, t, "roll")
	one := suite.WaitFor(ctx, t, "one pod replaced", perNode(t, "roll"),
		Or(ConsistOf("a 2", "b "), ConsistOf("a ", "b 2")))
	suite.Never(ctx, t, "the other before that is ready", perNode(t, "roll"), Not(ConsistOf(one)))
	for _, node := range []string{"a", "b"} {
		readyOn(ctx, t, "roll", node, "2")
	}
	suite.WaitFor(ctx, t, "both replaced", perNode(t, "roll"), ConsistOf("a 2", "b 2"))
	for _, node := range []string{"a", "b"} {
		readyOn(ctx, t, "roll", node, "2")
	}
	suite.WaitFor(ctx, t, "the update complete", func(ctx context.Context) (*appsv1.DaemonSet, error) {
		return t.Client.AppsV1().DaemonSets(t.Namespace).Get(ctx, "roll", metav1.GetOptions{})
	}, And(HaveField("Status.UpdatedNumberScheduled", BeEquivalentTo(2)),
		HaveField("Status.NumberAvailable", BeEquivalentTo(2))))
}

func daemonSetSurge(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a")
	createDaemonSet(ctx, t, "surge", func(spec *appsv1.DaemonSetSpec) {
		spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: ptr.To(intstr.FromInt32(1)),
			MaxUnavailable: ptr.To(intstr.FromInt32(0))}
	})
	suite.WaitFor(ctx, t, "a pod for the node", perNode(t, "surge"), ConsistOf("a "))
	readyOn(ctx, t, "surge", "a", "")
	secondDaemon(ctx, t, "surge")
	suite.WaitFor(ctx, t, "the new pod beside the old", perNode(t, "surge"), ConsistOf("a ", "a 2"))
	suite.Never(ctx, t, "the old gone before the new is ready", perNode(t, "surge"), HaveLen(1))
	readyOn(ctx, t, "surge", "a", "2")
	suite.WaitFor(ctx, t, "the new pod alone", perNode(t, "surge"), ConsistOf("a 2"))
}

func daemonSetOnDelete(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a")
	createDaemonSet(ctx, t, "manual", func(spec *appsv1.DaemonSetSpec) {
		spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	})
	pods := suite.WaitFor(ctx, t, "a pod", living(t, "manual"), HaveLen(1))
	secondDaemon(ctx, t, "manual")
	suite.Never(ctx, t, "the pod updated by itself", perNode(t, "manual"), Not(ConsistOf("a ")))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, pods[0].Name, metav1.DeleteOptions{}), "delete the pod")
	suite.WaitFor(ctx, t, "the new template in its place", perNode(t, "manual"), ConsistOf("a 2"))
}

func daemonSetFailedPod(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a")
	createDaemonSet(ctx, t, "again", nil)
	pods := suite.WaitFor(ctx, t, "a pod", living(t, "again"), HaveLen(1))
	endPod(ctx, t, pods[0].Name, 1)
	suite.WaitFor(ctx, t, "another pod in the failed one's place", living(t, "again"),
		And(HaveLen(1), HaveEach(HaveField("UID", Not(Equal(pods[0].UID))))))
}
