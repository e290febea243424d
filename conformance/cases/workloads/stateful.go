package workloads

import (
	"context"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func ofStatefulSets() []suite.Case {
	return []suite.Case{
		{ID: "workloads/statefulset-ordered", Run: statefulSetOrdered,
			Reference:   statefulSets + "#orderedready-pod-management",
			Requirement: "A StatefulSet MUST NOT start a pod before the one of the lower ordinal is ready."},
		{ID: "workloads/statefulset-parallel", Run: statefulSetParallel, Reference: statefulSets + "#start-ordinal",
			Requirement: "A StatefulSet with parallel pod management MUST start all pods at once, from its first ordinal on."},
		{ID: "workloads/statefulset-partition", Run: statefulSetPartition, Reference: statefulSets + "#partitions",
			Requirement: "An update of a StatefulSet MUST leave the pods below its partition as they are."},
		{ID: "workloads/statefulset-claims", Run: statefulSetClaims,
			Reference:   statefulSets + "#persistentvolumeclaim-retention",
			Requirement: "The claims of a StatefulSet's pods MUST be deleted or kept as its retention policy says."},
		{ID: "workloads/statefulset-heals", Run: statefulSetHeals, Reference: statefulSets + "#stable-network-id",
			Requirement: "A pod of a StatefulSet that is deleted MUST come back under its name."},
		{ID: "workloads/statefulset-on-delete", Run: statefulSetOnDelete, Reference: statefulSets + "#update-strategies",
			Requirement: "With the update strategy OnDelete a pod MUST get the new template when it is deleted, and " +
				"not before."},
		{ID: "workloads/statefulset-rolls", Run: statefulSetRolls, Reference: statefulSets + "#rolling-updates",
			Requirement: "An update MUST replace the pods from the highest ordinal down, each when the one before " +
				"is ready."},
		{ID: "workloads/statefulset-scales-down", Run: statefulSetScalesDown,
			Reference: statefulSets + "#deployment-and-scaling-guarantees",
			Requirement: "A StatefulSet that is scaled down MUST end its pods from the highest ordinal down, one " +
				"after the other."},
		{ID: "workloads/statefulset-foreign-pod", Run: statefulSetForeignPod, Reference: statefulSets,
			Requirement: "A pod that is not a StatefulSet's own MUST be left alone though it has the name of one, " +
				"which MUST be created when the name is free."},
		{ID: "workloads/statefulset-deleted-claims", Run: statefulSetDeletedClaims,
			Reference:   statefulSets + "#persistentvolumeclaim-retention",
			Requirement: "With whenDeleted Delete the claims of a StatefulSet MUST be deleted with it."},
	}
}

// createStatefulSet creates a set whose pods are on no node: the case tells when they are ready.
func createStatefulSet(ctx context.Context, t *suite.T, name string, change func(*appsv1.StatefulSetSpec)) {
	labels := map[string]string{"app": name}
	spec := appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2), ServiceName: name,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: t.ReplicaSet(name, 1).Spec.Template}
	unplaced(&spec.Template.Spec)
	change(&spec)
	_, err := t.Client.AppsV1().StatefulSets(t.Namespace).Create(ctx,
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	t.Must(err, "create the stateful set")
}

// makeReady has a pod run as if a kubelet said so.
func makeReady(ctx context.Context, t *suite.T, name string) {
	setReady(ctx, t, name, "True")
}

func setReady(ctx context.Context, t *suite.T, name, ready string) {
	_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, name, types.StrategicMergePatchType,
		[]byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"`+ready+`"}]}}`),
		metav1.PatchOptions{}, "status")
	t.Must(err, "set pod %s Ready=%s", name, ready)
}

// podNames returns the names of an app's pods.
func podNames(t *suite.T, app string) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		pods, err := living(t, app)(ctx)
		out := []string{}
		for _, p := range pods {
			out = append(out, p.Name)
		}
		return out, err
	}
}

func statefulSetOrdered(ctx context.Context, t *suite.T) {
	createStatefulSet(ctx, t, "row", func(*appsv1.StatefulSetSpec) {})
	suite.WaitFor(ctx, t, "the first pod", podNames(t, "row"), ConsistOf("row-0"))
	suite.Never(ctx, t, "the second before the first is ready", podNames(t, "row"), HaveLen(2))
	makeReady(ctx, t, "row-0")
	suite.WaitFor(ctx, t, "both", podNames(t, "row"), ConsistOf("row-0", "row-1"))
}

func statefulSetParallel(ctx context.Context, t *suite.T) {
	createStatefulSet(ctx, t, "all", func(spec *appsv1.StatefulSetSpec) {
		spec.PodManagementPolicy = appsv1.ParallelPodManagement
		spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
	})
	suite.WaitFor(ctx, t, "both, from the first ordinal on", podNames(t, "all"), ConsistOf("all-5", "all-6"))
	pod, err := t.GetPod("all-6")(ctx)
	t.Must(err, "get a pod")
	t.Expect(pod.Labels).To(HaveKeyWithValue(appsv1.PodIndexLabel, "6"))
	t.Expect(pod.Spec.Hostname).To(Equal("all-6"))
}

func statefulSetPartition(ctx context.Context, t *suite.T) {
	createStatefulSet(ctx, t, "part", func(spec *appsv1.StatefulSetSpec) {
		spec.PodManagementPolicy = appsv1.ParallelPodManagement
		spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}
	})
	before := suite.WaitFor(ctx, t, "two pods", living(t, "part"), HaveLen(2))
	for _, p := range before {
		makeReady(ctx, t, p.Name)
	}
	revision := before[0].Labels[appsv1.ControllerRevisionHashLabelKey]
	_, err := t.Client.AppsV1().StatefulSets(t.Namespace).Patch(ctx, "part", types.MergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`), metav1.PatchOptions{})
	t.Must(err, "change the template")
	of := func(match OmegaMatcher) OmegaMatcher {
		return HaveField("Labels", HaveKeyWithValue(appsv1.ControllerRevisionHashLabelKey, match))
	}
	suite.WaitFor(ctx, t, "the pod from the partition on replaced", t.GetPod("part-1"), of(Not(Equal(revision))))
	makeReady(ctx, t, "part-1")
	suite.Never(ctx, t, "the pod before it replaced", t.GetPod("part-0"), of(Not(Equal(revision))))
}

// claimTemplate is of a claim that no class provisions.
func claimTemplate(name string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(""),
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}}}
}

func statefulSetClaims(ctx context.Context, t *suite.T) {
	createStatefulSet(ctx, t, "keep", func(spec *appsv1.StatefulSetSpec) {
		spec.PodManagementPolicy = appsv1.ParallelPodManagement
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType}
		spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claimTemplate("data")}
	})
	claims := func(ctx context.Context) ([]string, error) {
		list, err := t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		out := []string{}
		for _, claim := range list.Items {
			out = append(out, claim.Name)
		}
		return out, nil
	}
	suite.WaitFor(ctx, t, "a claim for each pod", claims, ConsistOf("data-keep-0", "data-keep-1"))
	for _, p := range suite.WaitFor(ctx, t, "two pods", living(t, "keep"), HaveLen(2)) {
		makeReady(ctx, t, p.Name)
	}
	sets := t.Client.AppsV1().StatefulSets(t.Namespace)
	_, err := sets.Patch(ctx, "keep", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
	t.Must(err, "scale down")
	suite.WaitFor(ctx, t, "the claim of the surplus pod gone", claims, ConsistOf("data-keep-0"))
	t.Must(sets.Delete(ctx, "keep", metav1.DeleteOptions{}), "delete the set")
	suite.WaitFor(ctx, t, "no pods", living(t, "keep"), BeEmpty())
	suite.Never(ctx, t, "the other claim gone", claims, BeEmpty())
}

func replicationController(ctx context.Context, t *suite.T) {
	template := t.ReplicaSet("old", 1).Spec.Template
	unplaced(&template.Spec)
	controllers := t.Client.CoreV1().ReplicationControllers(t.Namespace)
	_, err := controllers.Create(ctx, &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](2), Template: &template}}, metav1.CreateOptions{})
	t.Must(err, "create the replication controller")
	pods := suite.WaitFor(ctx, t, "two pods", living(t, "old"), HaveLen(2))
	t.Expect(metav1.GetControllerOf(&pods[0])).To(HaveField("Kind", "ReplicationController"))
	_, err = controllers.Patch(ctx, "old", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
	t.Must(err, "scale down")
	suite.WaitFor(ctx, t, "one pod", living(t, "old"), HaveLen(1))
}

// daemonSetSelector needs no more than that nodes exist.
func daemonSetSelector(ctx context.Context, t *suite.T) {
	nodes, err := t.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: corev1.LabelHostname})
	t.Must(err, "list nodes")
	t.Expect(nodes.Items).NotTo(BeEmpty())
	host := nodes.Items[0].Labels[corev1.LabelHostname]
	template := t.ReplicaSet("agent", 1).Spec.Template
	unplaced(&template.Spec)
	template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: host}
	sets := t.Client.AppsV1().DaemonSets(t.Namespace)
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}, Template: template}}
	_, err = sets.Create(ctx, set, metav1.CreateOptions{})
	t.Must(err, "create the daemon set")
	suite.WaitFor(ctx, t, "a pod for the node that is selected", living(t, "agent"), HaveLen(1))
	suite.Never(ctx, t, "another pod", living(t, "agent"), HaveLen(2))
	_, err = sets.Patch(ctx, "agent", types.MergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"no-such-node"}}}}}`),
		metav1.PatchOptions{})
	t.Must(err, "select no node")
	suite.WaitFor(ctx, t, "no pod", living(t, "agent"), BeEmpty())
	suite.WaitFor(ctx, t, "none desired", func(ctx context.Context) (int32, error) {
		set, err := sets.Get(ctx, "agent", metav1.GetOptions{})
		if err != nil {
			return -1, err
		}
		return set.Status.DesiredNumberScheduled, nil
	}, BeZero())
}

func disruptionBudget(ctx context.Context, t *suite.T) {
	for _, name := range []string{"well", "ill"} {
		pod := t.Pod(name, "serve")
		pod.Labels = map[string]string{"app": "guarded"}
		unplaced(&pod.Spec)
		t.CreatePod(ctx, pod)
	}
	makeReady(ctx, t, "well")
	setReady(ctx, t, "ill", "False")
	budgets := t.Client.PolicyV1().PodDisruptionBudgets(t.Namespace)
	_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(2)),
			Selector:                   &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow)}}, metav1.CreateOptions{})
	t.Must(err, "create the budget")
	suite.WaitFor(ctx, t, "one of two pods healthy", func(ctx context.Context) (*policyv1.PodDisruptionBudget, error) {
		return budgets.Get(ctx, "guard", metav1.GetOptions{})
	}, And(HaveField("Status.CurrentHealthy", BeEquivalentTo(1)), HaveField("Status.ExpectedPods", BeEquivalentTo(2)),
		HaveField("Status.DisruptionsAllowed", BeZero())))
	evict := func(name string) error {
		return t.Client.CoreV1().Pods(t.Namespace).EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.Namespace}})
	}
	err = evict("well")
	t.Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "the eviction of the healthy pod: %v", err)
	t.Must(evict("ill"), "evict the pod that is not ready")
}
