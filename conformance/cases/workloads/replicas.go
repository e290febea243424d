package workloads

import (
	"context"
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

func ofReplicas() []suite.Case {
	return []suite.Case{
		{ID: "workloads/replicationcontroller", Run: replicationController,
			Reference:   "https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller/",
			Requirement: "A ReplicationController MUST have exactly as many pods as it asks for, and own them."},
		{ID: "workloads/replicaset-deletion-cost", Run: replicaSetDeletionCost,
			Reference: replicaSets + "#pod-deletion-cost",
			Requirement: "Of equal pods, those of the lowest deletion cost MUST go first when a ReplicaSet is " +
				"scaled down."},
		{ID: "workloads/replicaset-unready-first", Run: replicaSetUnreadyFirst,
			Reference:   replicaSets + "#scaling-a-replicaset",
			Requirement: "Pods that are not ready MUST go before ready ones when a ReplicaSet is scaled down."},
		{ID: "workloads/replicaset-min-ready", Run: replicaSetMinReady, Reference: deployments + "#min-ready-seconds",
			Requirement: "A pod MUST count as available only when it has been ready for minReadySeconds."},
		{ID: "workloads/replicaset-failed-pod", Run: replicaSetFailedPod, Reference: replicaSets,
			Requirement: "A pod that failed MUST be replaced once."},
		{ID: "workloads/deployment-surge", Run: deploymentSurge, Reference: deployments + "#max-surge",
			Requirement: "A rollout MUST go on by as many pods as maxSurge and maxUnavailable allow, and no further " +
				"until they are ready."},
		{ID: "workloads/deployment-proportional", Run: deploymentProportional,
			Reference: deployments + "#proportional-scaling",
			Requirement: "A Deployment that is scaled during a rollout MUST share the change among its ReplicaSets " +
				"in proportion."},
		{ID: "workloads/deployment-history", Run: deploymentHistory, Reference: deployments + "#clean-up-policy",
			Requirement: "A Deployment MUST keep no more old ReplicaSets than its revisionHistoryLimit."},
		{ID: "workloads/deployment-available", Run: deploymentAvailable, Reference: deployments + "#deployment-status",
			Requirement: "A Deployment MUST be Available as long as no more pods are missing than it allows, and " +
				"say so otherwise."},
	}
}

func scaleReplicaSet(ctx context.Context, t *suite.T, name string, replicas int) {
	_, err := t.Client.AppsV1().ReplicaSets(t.Namespace).Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	t.Must(err, "scale to %d", replicas)
}

func setCost(ctx context.Context, t *suite.T, pod string, cost int) {
	_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, pod, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, corev1.PodDeletionCost, cost), metav1.PatchOptions{})
	t.Must(err, "set the cost of %s", pod)
}

func replicaSetDeletionCost(ctx context.Context, t *suite.T) {
	createReplicaSet(ctx, t, "cost", 3)
	pods := suite.WaitFor(ctx, t, "three pods", living(t, "cost"), HaveLen(3))
	for i, cost := range []int{10, -5, 100} {
		makeReady(ctx, t, pods[i].Name)
		setCost(ctx, t, pods[i].Name, cost)
	}
	suite.WaitFor(ctx, t, "all ready", getReplicaSet(t, "cost"), HaveField("Status.ReadyReplicas", BeEquivalentTo(3)))
	scaleReplicaSet(ctx, t, "cost", 2)
	suite.WaitFor(ctx, t, "the cheapest gone", podNames(t, "cost"), ConsistOf(pods[0].Name, pods[2].Name))
	scaleReplicaSet(ctx, t, "cost", 1)
	suite.WaitFor(ctx, t, "the dearest left", podNames(t, "cost"), ConsistOf(pods[2].Name))
}

func replicaSetUnreadyFirst(ctx context.Context, t *suite.T) {
	createReplicaSet(ctx, t, "pick", 3)
	pods := suite.WaitFor(ctx, t, "three pods", living(t, "pick"), HaveLen(3))
	makeReady(ctx, t, pods[0].Name)
	makeReady(ctx, t, pods[2].Name)
	setReady(ctx, t, pods[1].Name, "False")
	setCost(ctx, t, pods[1].Name, 100) // which matters among pods alike only
	suite.WaitFor(ctx, t, "two ready", getReplicaSet(t, "pick"), HaveField("Status.ReadyReplicas", BeEquivalentTo(2)))
	scaleReplicaSet(ctx, t, "pick", 2)
	suite.WaitFor(ctx, t, "the ready pods left", podNames(t, "pick"), ConsistOf(pods[0].Name, pods[2].Name))
}

func getReplicaSet(t *suite.T, name string) func(ctx context.Context) (*appsv1.ReplicaSet, error) {
	return func(ctx context.Context) (*appsv1.ReplicaSet, error) {
		return t.Client.AppsV1().ReplicaSets(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

// replicaSetMinReady: a pod that is ready is available only after a while.
func replicaSetMinReady(ctx context.Context, t *suite.T) {
	set := t.ReplicaSet("slow", 1)
	set.Spec.MinReadySeconds = 3600
	unplaced(&set.Spec.Template.Spec)
	_, err := t.Client.AppsV1().ReplicaSets(t.Namespace).Create(ctx, set, metav1.CreateOptions{})
	t.Must(err, "create the replica set")
	pods := suite.WaitFor(ctx, t, "a pod", living(t, "slow"), HaveLen(1))
	_, err = t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, pods[0].Name, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True",`+
			`"lastTransitionTime":%q}]}}`, pods[0].CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z")),
		metav1.PatchOptions{}, "status")
	t.Must(err, "make the pod ready")
	suite.WaitFor(ctx, t, "the pod ready", getReplicaSet(t, "slow"), HaveField("Status.ReadyReplicas", BeEquivalentTo(1)))
	suite.Never(ctx, t, "the pod available", getReplicaSet(t, "slow"),
		HaveField("Status.AvailableReplicas", Not(BeZero())))
	_, err = t.Client.AppsV1().ReplicaSets(t.Namespace).Patch(ctx, "slow", types.MergePatchType,
		[]byte(`{"spec":{"minReadySeconds":0}}`), metav1.PatchOptions{})
	t.Must(err, "ask for no time")
	suite.WaitFor(ctx, t, "the pod available", getReplicaSet(t, "slow"),
		HaveField("Status.AvailableReplicas", BeEquivalentTo(1)))
}

func replicaSetFailedPod(ctx context.Context, t *suite.T) {
	createReplicaSet(ctx, t, "again", 1)
	pods := suite.WaitFor(ctx, t, "a pod", living(t, "again"), HaveLen(1))
	endPod(ctx, t, pods[0].Name, 1)
	suite.WaitFor(ctx, t, "another pod beside the failed one", living(t, "again"),
		And(HaveLen(2), ContainElement(HaveField("Status.Phase", corev1.PodPending))))
	suite.Never(ctx, t, "a third", living(t, "again"), Not(HaveLen(2)))
}

// createUnplaced creates a Deployment whose pods are on no node, and has its first ones be ready.
func createUnplaced(ctx context.Context, t *suite.T, name string, replicas int32, surge, unavailable int32) {
	d := t.Deployment(name, replicas)
	unplaced(&d.Spec.Template.Spec)
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt32(surge)),
			MaxUnavailable: ptr.To(intstr.FromInt32(unavailable))}}
	create(ctx, t, d)
	for _, p := range suite.WaitFor(ctx, t, "all pods", living(t, name), HaveLen(int(replicas))) {
		makeReady(ctx, t, p.Name)
	}
	waitRolled(ctx, t, name, replicas)
}

// sizes returns what a Deployment's replica sets ask for, those of the first template before that of the second.
func sizes(t *suite.T, app string) func(ctx context.Context) ([]int32, error) {
	return func(ctx context.Context) ([]int32, error) {
		list, err := t.Client.AppsV1().ReplicaSets(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return nil, err
		}
		out := make([]int32, 2)
		for _, set := range list.Items {
			if set.Spec.Template.Annotations["version"] == "2" {
				out[1] = *set.Spec.Replicas
			} else {
				out[0] = *set.Spec.Replicas
			}
		}
		return out, nil
	}
}

func deploymentSurge(ctx context.Context, t *suite.T) {
	createUnplaced(ctx, t, "surge", 3, 1, 0)
	patch(ctx, t, "surge", secondTemplate)
	for i := range int32(3) {
		suite.WaitFor(ctx, t, "one pod more", sizes(t, "surge"), Equal([]int32{3 - i, i + 1}))
		suite.Never(ctx, t, "another step before that pod is ready", sizes(t, "surge"),
			Not(Equal([]int32{3 - i, i + 1})))
		names := suite.WaitFor(ctx, t, "the new pod", updated(t, "surge"), HaveLen(int(i)+1))
		for _, name := range names {
			makeReady(ctx, t, name)
		}
	}
	suite.WaitFor(ctx, t, "all replaced", sizes(t, "surge"), Equal([]int32{0, 3}))
}

// deploymentProportional begins with the example of the documentation, where equal shares would look the same.
func deploymentProportional(ctx context.Context, t *suite.T) {
	createUnplaced(ctx, t, "even", 10, 3, 2)
	patch(ctx, t, "even", secondTemplate)
	suite.WaitFor(ctx, t, "the rollout as far as it may go", sizes(t, "even"), Equal([]int32{8, 5}))
	patch(ctx, t, "even", `{"spec":{"replicas":15}}`)
	suite.WaitFor(ctx, t, "the surplus shared in proportion", sizes(t, "even"), Equal([]int32{11, 7}))
	patch(ctx, t, "even", `{"spec":{"replicas":30}}`)
	suite.WaitFor(ctx, t, "more of it to the larger one", sizes(t, "even"), Equal([]int32{20, 13}))
}

func deploymentHistory(ctx context.Context, t *suite.T) {
	d := t.Deployment("brief", 0)
	d.Spec.RevisionHistoryLimit = ptr.To[int32](1)
	create(ctx, t, d)
	revisions := func(ctx context.Context) ([]string, error) {
		list, err := t.Client.AppsV1().ReplicaSets(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=brief"})
		if err != nil {
			return nil, err
		}
		out := []string{}
		for _, set := range list.Items {
			out = append(out, set.Annotations[revision])
		}
		return out, nil
	}
	suite.WaitFor(ctx, t, "the first revision", revisions, ConsistOf("1"))
	for i := 2; i <= 4; i++ {
		patch(ctx, t, "brief", template(fmt.Sprint(i)))
		suite.WaitFor(ctx, t, "the newest revision and the one before", revisions,
			ConsistOf(fmt.Sprint(i-1), fmt.Sprint(i)))
	}
}

func deploymentAvailable(ctx context.Context, t *suite.T) {
	createUnplaced(ctx, t, "known", 2, 0, 1)
	condition := func(status corev1.ConditionStatus, reason string) OmegaMatcher {
		return HaveField("Status.Conditions", ContainElement(And(HaveField("Type", appsv1.DeploymentAvailable),
			HaveField("Status", status), HaveField("Reason", reason))))
	}
	suite.WaitFor(ctx, t, "the deployment available", get(t, "known"),
		condition(corev1.ConditionTrue, "MinimumReplicasAvailable"))
	pods, err := living(t, "known")(ctx)
	t.Must(err, "list the pods")
	setReady(ctx, t, pods[0].Name, "False")
	suite.WaitFor(ctx, t, "one pod counted as unavailable", get(t, "known"),
		HaveField("Status.UnavailableReplicas", BeEquivalentTo(1)))
	t.Expect(get(t, "known")(ctx)).To(condition(corev1.ConditionTrue, "MinimumReplicasAvailable"), "one may be missing")
	setReady(ctx, t, pods[1].Name, "False")
	suite.WaitFor(ctx, t, "the deployment unavailable", get(t, "known"),
		condition(corev1.ConditionFalse, "MinimumReplicasUnavailable"))
}
