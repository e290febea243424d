package workloads

import (
	"context"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

// readySet creates a set of n pods and has all of them be ready.
func readySet(ctx context.Context, t *suite.T, name string, n int32, change func(*appsv1.StatefulSetSpec)) {
	createStatefulSet(ctx, t, name, func(spec *appsv1.StatefulSetSpec) {
		spec.Replicas = &n
		spec.PodManagementPolicy = appsv1.ParallelPodManagement
		change(spec)
	})
	for _, p := range suite.WaitFor(ctx, t, "all pods", living(t, name), HaveLen(int(n))) {
		makeReady(ctx, t, p.Name)
	}
	suite.WaitFor(ctx, t, "all pods counted", getSet(t, name), HaveField("Status.ReadyReplicas", n))
}

func getSet(t *suite.T, name string) func(ctx context.Context) (*appsv1.StatefulSet, error) {
	return func(ctx context.Context) (*appsv1.StatefulSet, error) {
		return t.Client.AppsV1().StatefulSets(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

func patchSet(ctx context.Context, t *suite.T, name, body string) {
	_, err := t.Client.AppsV1().StatefulSets(t.Namespace).Patch(ctx, name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{})
	t.Must(err, "patch the stateful set")
}

const secondTemplate = `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`

// updated returns the names of the app's living pods that have the second template.
func updated(t *suite.T, app string) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		pods, err := living(t, app)(ctx)
		out := []string{}
		for _, p := range pods {
			if p.Annotations["version"] == "2" {
				out = append(out, p.Name)
			}
		}
		return out, err
	}
}

func statefulSetHeals(ctx context.Context, t *suite.T) {
	readySet(ctx, t, "same", 2, func(*appsv1.StatefulSetSpec) {})
	before, err := t.GetPod("same-0")(ctx)
	t.Must(err, "get a pod")
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "same-0", metav1.DeleteOptions{}), "delete a pod")
	suite.WaitFor(ctx, t, "a pod of the same name", living(t, "same"), And(HaveLen(2),
		ContainElement(And(HaveField("Name", "same-0"), HaveField("UID", Not(Equal(before.UID)))))))
}

func statefulSetOnDelete(ctx context.Context, t *suite.T) {
	readySet(ctx, t, "manual", 2, func(spec *appsv1.StatefulSetSpec) {
		spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	})
	patchSet(ctx, t, "manual", secondTemplate)
	suite.Never(ctx, t, "a pod updated by itself", updated(t, "manual"), Not(BeEmpty()))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "manual-0", metav1.DeleteOptions{}), "delete a pod")
	suite.WaitFor(ctx, t, "the deleted pod back with the new template", updated(t, "manual"), ConsistOf("manual-0"))
}

func statefulSetRolls(ctx context.Context, t *suite.T) {
	readySet(ctx, t, "roll", 3, func(*appsv1.StatefulSetSpec) {})
	patchSet(ctx, t, "roll", secondTemplate)
	for i, want := range [][]string{{"roll-2"}, {"roll-2", "roll-1"}, {"roll-2", "roll-1", "roll-0"}} {
		suite.WaitFor(ctx, t, "the next pod updated, from the highest ordinal down", updated(t, "roll"),
			ConsistOf(want))
		suite.Never(ctx, t, "another before that is ready", updated(t, "roll"), HaveLen(i+2))
		makeReady(ctx, t, want[i])
	}
	set := suite.WaitFor(ctx, t, "the update complete", getSet(t, "roll"), Satisfy(func(set *appsv1.StatefulSet) bool {
		return set.Status.CurrentRevision == set.Status.UpdateRevision && set.Status.UpdatedReplicas == 3
	}))
	revisions, err := t.Client.AppsV1().ControllerRevisions(t.Namespace).List(ctx, metav1.ListOptions{})
	t.Must(err, "list the revisions")
	t.Expect(revisions.Items).To(And(HaveLen(2), ContainElement(HaveField("Name", set.Status.UpdateRevision))))
}

// statefulSetScalesDown has its pods on a node that is not there, so that a deletion takes until the case says so.
func statefulSetScalesDown(ctx context.Context, t *suite.T) {
	createStatefulSet(ctx, t, "down", func(spec *appsv1.StatefulSetSpec) {
		spec.Replicas = ptr.To[int32](3)
		spec.Template.Spec.SchedulingGates = nil
		spec.Template.Spec.NodeName = t.Namespace
	})
	for _, name := range []string{"down-0", "down-1", "down-2"} {
		suite.WaitFor(ctx, t, "pod "+name, podNames(t, "down"), ContainElement(name))
		makeReady(ctx, t, name)
	}
	patchSet(ctx, t, "down", `{"spec":{"replicas":1}}`)
	suite.WaitFor(ctx, t, "the highest pod on its way out", podNames(t, "down"), ConsistOf("down-0", "down-1"))
	suite.Never(ctx, t, "the next before the highest is gone", podNames(t, "down"), HaveLen(1))
	now := int64(0)
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "down-2",
		metav1.DeleteOptions{GracePeriodSeconds: &now}), "end the highest pod")
	suite.WaitFor(ctx, t, "the next pod on its way out", podNames(t, "down"), ConsistOf("down-0"))
}

// statefulSetForeignPod: a name that is taken is waited for, not taken over.
func statefulSetForeignPod(ctx context.Context, t *suite.T) {
	foreign := t.Pod("taken-0", "serve")
	unplaced(&foreign.Spec)
	uid := t.CreatePod(ctx, foreign).UID
	createStatefulSet(ctx, t, "taken", func(spec *appsv1.StatefulSetSpec) { spec.Replicas = ptr.To[int32](1) })
	suite.Never(ctx, t, "the foreign pod changed", t.GetPod("taken-0"), Or(HaveField("UID", Not(Equal(uid))),
		HaveField("OwnerReferences", Not(BeEmpty()))))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "taken-0", metav1.DeleteOptions{}), "delete it")
	suite.WaitFor(ctx, t, "the set's own pod", podNames(t, "taken"), ConsistOf("taken-0"))
	t.Expect(t.GetPod("taken-0")(ctx)).To(HaveField("OwnerReferences", ContainElement(HaveField("Kind", "StatefulSet"))))
}

// statefulSetDeletedClaims: with whenDeleted Delete the claims go with the set.
func statefulSetDeletedClaims(ctx context.Context, t *suite.T) {
	readySet(ctx, t, "gone", 1, func(spec *appsv1.StatefulSetSpec) {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
		spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claimTemplate("data")}
	})
	claims := t.Client.CoreV1().PersistentVolumeClaims(t.Namespace)
	suite.WaitFor(ctx, t, "the claim owned by the set", func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return claims.Get(ctx, "data-gone-0", metav1.GetOptions{})
	}, HaveField("OwnerReferences", ContainElement(HaveField("Kind", "StatefulSet"))))
	t.Must(t.Client.AppsV1().StatefulSets(t.Namespace).Delete(ctx, "gone", metav1.DeleteOptions{}), "delete the set")
	suite.WaitFor(ctx, t, "no claims", func(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
		list, err := claims.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}, BeEmpty())
}
