package workloads

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/conformance/suite"
)

// unplaced keeps a template's pods off every node: the case tests their number, not that they run.
func unplaced(spec *corev1.PodSpec) {
	spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "conformance.quintet.dev/unplaced"}}
}

func createReplicaSet(ctx context.Context, t *suite.T, name string, replicas int32) types.UID {
	set := t.ReplicaSet(name, replicas)
	unplaced(&set.Spec.Template.Spec)
	created, err := t.Client.AppsV1().ReplicaSets(t.Namespace).Create(ctx, set, metav1.CreateOptions{})
	t.Must(err, "create the replica set")
	return created.UID
}

// living returns the pods of an app that are not on their way out.
func living(t *suite.T, app string) func(ctx context.Context) ([]corev1.Pod, error) {
	return func(ctx context.Context) ([]corev1.Pod, error) {
		pods, err := t.ListPods("app=" + app)(ctx)
		kept := []corev1.Pod{}
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				kept = append(kept, p)
			}
		}
		return kept, err
	}
}

func replicaSetCreates(ctx context.Context, t *suite.T) {
	uid := createReplicaSet(ctx, t, "three", 3)
	pods := suite.WaitFor(ctx, t, "three pods", living(t, "three"), HaveLen(3))
	for _, p := range pods {
		t.Expect(p.GenerateName).To(Equal("three-"))
		owner := metav1.GetControllerOf(&p)
		t.Expect(owner).NotTo(BeNil())
		t.Expect(owner.UID).To(Equal(uid))
		t.Expect(*owner.BlockOwnerDeletion).To(BeTrue())
	}
	suite.Never(ctx, t, "a fourth pod", living(t, "three"), Not(HaveLen(3)))
	set, err := t.Client.AppsV1().ReplicaSets(t.Namespace).Get(ctx, "three", metav1.GetOptions{})
	t.Must(err, "get the replica set")
	t.Expect(set.Status.Replicas).To(BeEquivalentTo(3))
	t.Expect(set.Status.FullyLabeledReplicas).To(BeEquivalentTo(3))
	t.Expect(set.Status.ObservedGeneration).To(Equal(set.Generation))
}

func replicaSetHeals(ctx context.Context, t *suite.T) {
	createReplicaSet(ctx, t, "heal", 3)
	pods := suite.WaitFor(ctx, t, "three pods", living(t, "heal"), HaveLen(3))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, pods[0].Name, metav1.DeleteOptions{}), "delete a pod")
	suite.WaitFor(ctx, t, "three pods again, the deleted one not among them", living(t, "heal"),
		And(HaveLen(3), Not(ContainElement(HaveField("Name", pods[0].Name)))))
	_, err := t.Client.AppsV1().ReplicaSets(t.Namespace).Patch(ctx, "heal", types.MergePatchType,
		[]byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
	t.Must(err, "scale down")
	suite.WaitFor(ctx, t, "one pod", living(t, "heal"), HaveLen(1))
	suite.Never(ctx, t, "another number of pods", living(t, "heal"), Not(HaveLen(1)))
}

func replicaSetAdopts(ctx context.Context, t *suite.T) {
	orphan := t.Pod("orphan", "serve")
	orphan.Labels = map[string]string{"app": "adopt"}
	unplaced(&orphan.Spec)
	t.CreatePod(ctx, orphan)
	uid := createReplicaSet(ctx, t, "adopt", 2)
	owned := HaveField("OwnerReferences", ContainElement(HaveField("UID", uid)))
	suite.WaitFor(ctx, t, "the orphan adopted", t.GetPod("orphan"), owned)
	suite.WaitFor(ctx, t, "one pod besides it", living(t, "adopt"), HaveLen(2))
	_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, "orphan", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app":"other"}}}`), metav1.PatchOptions{})
	t.Must(err, "change the pod's label")
	suite.WaitFor(ctx, t, "the pod released", t.GetPod("orphan"), Not(owned))
	suite.WaitFor(ctx, t, "a pod in its place", living(t, "adopt"), HaveLen(2))
}
