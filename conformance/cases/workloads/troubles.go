package workloads

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func ofTroubles() []suite.Case {
	const taints = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions"
	const quotas = "https://kubernetes.io/docs/concepts/policy/resource-quotas/"
	const ranges = "https://kubernetes.io/docs/concepts/policy/limit-range/"
	return []suite.Case{
		{ID: "workloads/taint-eviction", Run: taintEviction, Reference: taints,
			Requirement: "A NoExecute taint MUST evict the pods that do not tolerate it, and those that tolerate it " +
				"for a time after that."},
		{ID: "workloads/quota-requests", Run: quotaRequests, Reference: quotas,
			Requirement: "A quota of requests MUST refuse pods that say nothing and those that exceed it, and count " +
				"what others ask for."},
		{ID: "workloads/quota-objects", Run: quotaObjects, Reference: quotas + "#quota-on-object-count",
			Requirement: "A quota of a number of objects MUST refuse one more, and allow it when one is gone."},
		{ID: "workloads/limit-range-bounds", Run: limitRangeBounds, Reference: ranges,
			Requirement: "A LimitRange MUST refuse what is below its minimum, whose limit is too many times its " +
				"request, and pods whose sum is above its maximum."},
		{ID: "workloads/disruption-percent", Run: disruptionPercent,
			Reference: "https://kubernetes.io/docs/tasks/run-application/configure-pdb/",
			Requirement: "A budget in percent MUST be of the number that the pods' owner asks for, and each " +
				"eviction MUST use it up by one."},
		{ID: "workloads/slice-conditions", Run: sliceConditions, Reference: sliceDocs + "#conditions",
			Requirement: "An endpoint MUST be ready, serving and terminating as its pod is."},
		{ID: "workloads/slice-unready", Run: sliceUnready, Reference: sliceDocs + "#conditions",
			Requirement: "A Service that publishes pods which are not ready MUST have them as ready endpoints."},
		{ID: "workloads/slice-mirror", Run: sliceMirror, Reference: sliceDocs + "#endpointslice-mirroring",
			Requirement: "Endpoints of a Service without a selector MUST be mirrored into an EndpointSlice, and " +
				"removed with it."},
		{ID: "workloads/account-secret", Run: accountSecret, Reference: accounts,
			Requirement: "A Secret of a service account's token MUST be filled, and deleted with the account."},
		{ID: "workloads/role-aggregation", Run: roleAggregation,
			Reference: "https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles",
			Requirement: "An aggregated ClusterRole MUST have the rules of the roles that it selects, as they come " +
				"and go."},
	}
}

// onNode returns a pod of a label app that is on a node which exists only in the API: it stays there until the case or
// a controller says otherwise.
func onNode(t *suite.T, name, app, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	pod := t.Pod(name, "serve")
	pod.Labels = map[string]string{"app": app}
	pod.Spec.NodeName = node
	pod.Spec.Tolerations = tolerations
	return pod
}

func taintEviction(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "a")
	key := "conformance.quintet.dev/trouble"
	for name, toleration := range map[string]corev1.Toleration{
		"none": {Key: "other", Operator: corev1.TolerationOpExists},
		"brief": {Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To[int64](5)},
		"always": {Key: key, Operator: corev1.TolerationOpExists},
	} {
		t.CreatePod(ctx, onNode(t, name, "victim", node, toleration))
	}
	read, err := t.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	t.Must(err, "get the node")
	read.Spec.Taints = append(read.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	_, err = t.Client.CoreV1().Nodes().Update(ctx, read, metav1.UpdateOptions{})
	t.Must(err, "taint the node")
	gone := HaveField("DeletionTimestamp", Not(BeNil()))
	evicted := suite.WaitFor(ctx, t, "the pod without toleration evicted", t.GetPod("none"), gone)
	t.Expect(evicted.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.DisruptionTarget),
		HaveField("Status", corev1.ConditionTrue), HaveField("Reason", "DeletionByTaintManager"))))
	t.Expect(t.GetPod("brief")(ctx)).NotTo(gone, "its time is not over")
	suite.WaitFor(ctx, t, "the pod that tolerates it for a time evicted", t.GetPod("brief"), gone)
	suite.Never(ctx, t, "the pod that tolerates it evicted", t.GetPod("always"), gone)
}

func quotaRequests(ctx context.Context, t *suite.T) {
	asks := func(name, amount string) error {
		pod := t.Pod(name, "serve")
		unplaced(&pod.Spec)
		if amount != "" {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(amount)}
		}
		_, err := t.Client.CoreV1().Pods(t.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
	t.Must(asks("early", "20m"), "create a pod before the quota")
	quotas := t.Client.CoreV1().ResourceQuotas(t.Namespace)
	_, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "cpu"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceRequestsCPU: resource.MustParse("100m")}}}, metav1.CreateOptions{})
	t.Must(err, "create the quota")
	used := func(ctx context.Context) (string, error) {
		quota, err := quotas.Get(ctx, "cpu", metav1.GetOptions{})
		if err != nil || len(quota.Status.Hard) == 0 {
			return "", err
		}
		amount := quota.Status.Used[corev1.ResourceRequestsCPU]
		return amount.String(), nil
	}
	suite.WaitFor(ctx, t, "the use counted", used, Equal("20m"))
	t.Expect(asks("silent", "")).To(MatchError(ContainSubstring("must specify requests.cpu")))
	t.Must(asks("modest", "40m"), "create a pod within the quota")
	suite.WaitFor(ctx, t, "its request counted", used, Equal("60m"))
	err = asks("greedy", "60m")
	t.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "a pod beyond the quota: %v", err)
	t.Expect(err).To(MatchError(ContainSubstring(
		"requested: requests.cpu=60m, used: requests.cpu=60m, limited: requests.cpu=100m")))
}

func quotaObjects(ctx context.Context, t *suite.T) {
	quotas := t.Client.CoreV1().ResourceQuotas(t.Namespace)
	_, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "secrets"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("1")}}},
		metav1.CreateOptions{})
	t.Must(err, "create the quota")
	suite.WaitFor(ctx, t, "the use counted", func(ctx context.Context) (*corev1.ResourceQuota, error) {
		return quotas.Get(ctx, "secrets", metav1.GetOptions{})
	}, HaveField("Status.Used", HaveLen(1)))
	secrets := t.Client.CoreV1().Secrets(t.Namespace)
	create := func(name string) error {
		_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	t.Must(create("one"), "create the first")
	err = create("two")
	t.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "the second: %v", err)
	t.Must(secrets.Delete(ctx, "one", metav1.DeleteOptions{}), "delete the first")
	suite.WaitFor(ctx, t, "the second created", func(context.Context) (bool, error) {
		return true, create("two")
	}, BeTrue())
}

func limitRangeBounds(ctx context.Context, t *suite.T) {
	cpu := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
	}
	_, err := t.Client.CoreV1().LimitRanges(t.Namespace).Create(ctx, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "bounds"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Min: cpu("10m"), MaxLimitRequestRatio: cpu("2")},
			{Type: corev1.LimitTypePod, Max: cpu("100m")}}}}, metav1.CreateOptions{})
	t.Must(err, "create the limit range")
	create := func(name string, of ...corev1.ResourceRequirements) error {
		pod := t.Pod(name, "serve")
		unplaced(&pod.Spec)
		for i, requirements := range of {
			container := *pod.Spec.Containers[0].DeepCopy()
			container.Name, container.Resources = fmt.Sprint("c", i), requirements
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
		pod.Spec.Containers = pod.Spec.Containers[1:]
		_, err := t.Client.CoreV1().Pods(t.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
	both := func(request, limit string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: cpu(request), Limits: cpu(limit)}
	}
	t.Must(create("right", both("20m", "40m"), both("20m", "40m")), "create a pod within the bounds")
	t.Expect(create("small", both("5m", "10m"))).To(MatchError(
		ContainSubstring("minimum cpu usage per Container is 10m, but request is 5m")))
	t.Expect(create("steep", both("10m", "30m"))).To(MatchError(
		ContainSubstring("cpu max limit to request ratio per Container is 2, but provided ratio is 3")))
	t.Expect(create("wide", both("30m", "60m"), both("30m", "60m"))).To(MatchError(
		ContainSubstring("maximum cpu usage per Pod is 100m, but limit is 120m")))
}

func disruptionPercent(ctx context.Context, t *suite.T) {
	createReplicaSet(ctx, t, "half", 4)
	pods := suite.WaitFor(ctx, t, "four pods", living(t, "half"), HaveLen(4))
	failed := pods[0].Name
	endPod(ctx, t, failed, 1) // it stays beside the one in its place, and is none that the owner asks for
	pods = suite.WaitFor(ctx, t, "another pod", living(t, "half"), HaveLen(5))
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Name == failed })
	for _, p := range pods {
		makeReady(ctx, t, p.Name)
	}
	budgets := t.Client.PolicyV1().PodDisruptionBudgets(t.Namespace)
	_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "half"},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromString("25%")),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "half"}}}}, metav1.CreateOptions{})
	t.Must(err, "create the budget")
	suite.WaitFor(ctx, t, "one disruption allowed", func(ctx context.Context) (*policyv1.PodDisruptionBudget, error) {
		return budgets.Get(ctx, "half", metav1.GetOptions{})
	}, And(HaveField("Status.ExpectedPods", BeEquivalentTo(4)), HaveField("Status.DesiredHealthy", BeEquivalentTo(3)),
		HaveField("Status.CurrentHealthy", BeEquivalentTo(4)), HaveField("Status.DisruptionsAllowed", BeEquivalentTo(1))))
	evict := func(name string) error {
		return t.Client.CoreV1().Pods(t.Namespace).EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.Namespace}})
	}
	t.Must(evict(pods[0].Name), "evict the first")
	// The pod in its place is not ready, so that the budget stays used up.
	err = evict(pods[1].Name)
	t.Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "the second eviction: %v", err)
	t.Expect(apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)).To(BeTrue(), "the cause: %v", err)
}

// createService creates a Service over the pods of an app.
func createService(ctx context.Context, t *suite.T, name string, change func(*corev1.ServiceSpec)) {
	spec := corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}}
	if change != nil {
		change(&spec)
	}
	_, err := t.Client.CoreV1().Services(t.Namespace).Create(ctx,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	t.Must(err, "create the service")
}

// endpoints returns "address ready serving terminating" of a Service's endpoints.
func endpoints(t *suite.T, service string) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list, err := t.Client.DiscoveryV1().EndpointSlices(t.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
		if err != nil {
			return nil, err
		}
		out := []string{}
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				c := e.Conditions
				out = append(out, fmt.Sprint(e.Addresses[0], " ", ptr.Deref(c.Ready, true), " ", ptr.Deref(c.Serving, true),
					" ", ptr.Deref(c.Terminating, false)))
			}
		}
		return out, nil
	}
}

// address gives a pod an address and readiness as if a kubelet did.
func address(ctx context.Context, t *suite.T, name, ip, ready string) {
	_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, name, types.StrategicMergePatchType, fmt.Appendf(nil,
		`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}],"conditions":[{"type":"Ready","status":%q}]}}`,
		ip, ip, ready), metav1.PatchOptions{}, "status")
	t.Must(err, "set the status of pod %s", name)
}

func sliceConditions(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "a")
	createService(ctx, t, "web", nil)
	t.CreatePod(ctx, onNode(t, "web", "web", node))
	suite.Never(ctx, t, "an endpoint without an address", endpoints(t, "web"), Not(BeEmpty()))
	address(ctx, t, "web", "192.0.2.7", "False")
	suite.WaitFor(ctx, t, "the endpoint not ready", endpoints(t, "web"), ConsistOf("192.0.2.7 false false false"))
	address(ctx, t, "web", "192.0.2.7", "True")
	suite.WaitFor(ctx, t, "the endpoint ready", endpoints(t, "web"), ConsistOf("192.0.2.7 true true false"))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "web", metav1.DeleteOptions{}), "delete the pod")
	suite.WaitFor(ctx, t, "the endpoint on its way out", endpoints(t, "web"), ConsistOf("192.0.2.7 false true true"))
	now := int64(0)
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: &now}),
		"end the pod")
	suite.WaitFor(ctx, t, "no endpoint", endpoints(t, "web"), BeEmpty())
}

func sliceUnready(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "a")
	createService(ctx, t, "peer", func(spec *corev1.ServiceSpec) {
		spec.ClusterIP, spec.PublishNotReadyAddresses = corev1.ClusterIPNone, true
	})
	t.CreatePod(ctx, onNode(t, "peer", "peer", node))
	address(ctx, t, "peer", "192.0.2.8", "False")
	suite.WaitFor(ctx, t, "the endpoint ready", endpoints(t, "peer"), ConsistOf("192.0.2.8 true false false"))
}

func sliceMirror(ctx context.Context, t *suite.T) {
	createService(ctx, t, "outside", func(spec *corev1.ServiceSpec) { spec.Selector = nil })
	legacy := t.Client.CoreV1().Endpoints(t.Namespace)
	//lint:ignore SA1019 it is the deprecated API that is mirrored
	subsets := []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.9"}},
		Ports: []corev1.EndpointPort{{Port: 80}}}}
	//lint:ignore SA1019 it is the deprecated API that is mirrored
	_, err := legacy.Create(ctx, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "outside"}, Subsets: subsets},
		metav1.CreateOptions{})
	t.Must(err, "create the endpoints")
	suite.WaitFor(ctx, t, "the endpoint mirrored", endpoints(t, "outside"), ConsistOf(HavePrefix("192.0.2.9 true")))
	t.Must(legacy.Delete(ctx, "outside", metav1.DeleteOptions{}), "delete the endpoints")
	suite.WaitFor(ctx, t, "the mirror gone", endpoints(t, "outside"), BeEmpty())
}
