// Package flow holds the cases that test a pod's whole way from creation to running, and record its timeline.
package flow

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/conformance/suite"
)

// Cases returns the cases of the flow.
func Cases() []suite.Case {
	all := []suite.Case{
		{ID: "flow/pod", Run: pod, Reference: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/",
			Requirement: "A pod that is created MUST be bound to a node, started there, seen running, and gone after its " +
				"deletion."},
		{ID: "flow/deployment", Run: deployment,
			Reference: "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/",
			Requirement: "A Deployment MUST lead, over its ReplicaSet, to running pods, follow a new template, and take " +
				"everything with it when deleted.",
			Needs: []suite.Feature{suite.HasControllers}},
		{ID: "flow/late-node", Run: refusedThenRuns,
			Reference:   "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
			Requirement: "A pod that no node suits MUST say so, and run once a node has come to suit it."},
	}
	for i := range all {
		all[i].Component, all[i].Since, all[i].Score = suite.Flow, "0.1", true
		all[i].Needs = append(all[i].Needs, suite.HasScheduler, suite.RunsPods)
	}
	return all
}

func runningPod(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return p.Status.Phase == corev1.PodRunning && p.Spec.NodeName != "" && p.Status.PodIP != ""
		}
	}
	return false
}

func pod(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("traveller", "serve"))
	suite.WaitFor(ctx, t, "the pod running", t.GetPod("traveller"), Satisfy(runningPod))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "traveller", metav1.DeleteOptions{}), "delete the pod")
	suite.WaitFor(ctx, t, "no pod", t.ListPods("app=traveller"), BeEmpty())
}

func deployment(ctx context.Context, t *suite.T) {
	_, err := t.Client.AppsV1().Deployments(t.Namespace).Create(ctx, t.Deployment("orchestra", 2),
		metav1.CreateOptions{})
	t.Must(err, "create the deployment")
	all := And(HaveLen(2), HaveEach(Satisfy(func(p corev1.Pod) bool { return runningPod(&p) })))
	first := suite.WaitFor(ctx, t, "two running pods", t.ListPods("app=orchestra"), all)
	_, err = t.Client.AppsV1().Deployments(t.Namespace).Patch(ctx, "orchestra", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"PART","value":"2"}]}]}}}}`),
		metav1.PatchOptions{})
	t.Must(err, "change the template")
	suite.WaitFor(ctx, t, "two running pods of the new template", t.ListPods("app=orchestra"), And(all,
		HaveEach(HaveField("Name", Not(BeElementOf(first[0].Name, first[1].Name))))))
	policy := metav1.DeletePropagationForeground
	t.Must(t.Client.AppsV1().Deployments(t.Namespace).Delete(ctx, "orchestra",
		metav1.DeleteOptions{PropagationPolicy: &policy}), "delete the deployment")
	suite.WaitFor(ctx, t, "no pod", t.ListPods("app=orchestra"), BeEmpty())
}

func refusedThenRuns(ctx context.Context, t *suite.T) {
	nodes, err := t.RunningNodes(ctx)
	t.Must(err, "list the nodes")
	p := t.Pod("patient", "serve")
	p.Spec.NodeSelector = map[string]string{"conformance.quintet.dev/chosen": t.Namespace}
	t.CreatePod(ctx, p)
	suite.WaitFor(ctx, t, "the refusal", t.GetPod("patient"), HaveField("Status.Conditions", ContainElement(And(
		HaveField("Type", corev1.PodScheduled), HaveField("Reason", corev1.PodReasonUnschedulable)))))
	label := func(ctx context.Context, value string) error {
		_, err := t.Client.CoreV1().Nodes().Patch(ctx, nodes[0].Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"conformance.quintet.dev/chosen":`+value+`}}}`), metav1.PatchOptions{})
		return err
	}
	t.Cleanup(func(ctx context.Context) { _ = label(ctx, "null") })
	t.Must(label(ctx, `"`+t.Namespace+`"`), "label the node")
	t.Expect(suite.WaitFor(ctx, t, "the pod running", t.GetPod("patient"),
		Satisfy(runningPod)).Spec.NodeName).To(Equal(nodes[0].Name))
}
