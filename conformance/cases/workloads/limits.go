package workloads

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/conformance/suite"
)

func ofLimits() []suite.Case {
	return []suite.Case{
		{ID: "workloads/disruption-budget", Run: disruptionBudget,
			Reference: "https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy",
			Requirement: "A budget MUST refuse the eviction of a healthy pod that it needs, and allow that of an unhealthy " +
				"one if it says so."},
		{ID: "workloads/quota-scopes", Run: quotaScopes,
			Reference: "https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes",
			Requirement: "A quota with a scope MUST count the pods of that scope only, and count them no more when they are " +
				"gone."},
		{ID: "workloads/limit-range", Run: limitRange, Reference: "https://kubernetes.io/docs/concepts/policy/limit-range/",
			Requirement: "A LimitRange MUST give pods their defaults and refuse those above its maximum."},
		{ID: "workloads/namespace-finalizers", Run: namespaceFinalizers, Reference: namespaces,
			Requirement: "A namespace MUST stay, and tell what remains, until the last finalizer of its objects is gone."},
	}
}

// quotaScopes: only pods of the scope count, and their end is counted, too.
func quotaScopes(ctx context.Context, t *suite.T) {
	quotas := t.Client.CoreV1().ResourceQuotas(t.Namespace)
	_, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "idle"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")},
			Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}}}, metav1.CreateOptions{})
	t.Must(err, "create the quota")
	used := func(ctx context.Context) (string, error) {
		quota, err := quotas.Get(ctx, "idle", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		count := quota.Status.Used[corev1.ResourcePods]
		return fmt.Sprint(len(quota.Status.Hard), " ", count.String()), nil
	}
	suite.WaitFor(ctx, t, "the use counted", used, Equal("1 0"))
	create := func(name string, change func(*corev1.PodSpec)) error {
		pod := t.Pod(name, "serve")
		unplaced(&pod.Spec)
		change(&pod.Spec)
		_, err := t.Client.CoreV1().Pods(t.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
	asks := func(spec *corev1.PodSpec) {
		spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
	}
	nothing := func(*corev1.PodSpec) {}
	t.Must(create("asking", asks), "create a pod outside the scope")
	t.Must(create("first", nothing), "create a pod in the scope")
	err = create("second", nothing)
	t.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "a second pod in the scope: %v", err)
	t.Expect(err).To(MatchError(ContainSubstring("exceeded quota: idle")))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "first", metav1.DeleteOptions{}), "delete the first")
	suite.WaitFor(ctx, t, "its use given back", used, Equal("1 0"))
	t.Must(create("third", nothing), "create a pod in its place")
}

func limitRange(ctx context.Context, t *suite.T) {
	quantity := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
	}
	_, err := t.Client.CoreV1().LimitRanges(t.Namespace).Create(ctx, &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "modest"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: quantity("20m"), DefaultRequest: quantity("10m"),
			Max: quantity("50m")}}}}, metav1.CreateOptions{})
	t.Must(err, "create the limit range")
	create := func(name string, limit corev1.ResourceList) (*corev1.Pod, error) {
		pod := t.Pod(name, "serve")
		unplaced(&pod.Spec)
		pod.Spec.Containers[0].Resources.Limits = limit
		return t.Client.CoreV1().Pods(t.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	}
	pod, err := create("plain", nil)
	t.Must(err, "create a pod that says nothing")
	t.Expect(pod.Spec.Containers[0].Resources.Requests.Cpu().String()).To(Equal("10m"))
	t.Expect(pod.Spec.Containers[0].Resources.Limits.Cpu().String()).To(Equal("20m"))
	_, err = create("greedy", quantity("60m"))
	t.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "a pod above the maximum: %v", err)
}

// namespaceFinalizers: what keeps an object keeps its namespace, which says so.
func namespaceFinalizers(ctx context.Context, t *suite.T) {
	spaces := t.Client.CoreV1().Namespaces()
	made, err := spaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "held-"}},
		metav1.CreateOptions{})
	t.Must(err, "create a namespace")
	maps := t.Client.CoreV1().ConfigMaps(made.Name)
	release := func(ctx context.Context) error {
		_, err := maps.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		return err
	}
	t.Cleanup(func(ctx context.Context) {
		_ = release(ctx)
		_ = spaces.Delete(ctx, made.Name, metav1.DeleteOptions{})
	})
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held",
		Finalizers: []string{"conformance.quintet.dev/hold"}}}, metav1.CreateOptions{})
	t.Must(err, "create an object that is kept")
	t.Must(spaces.Delete(ctx, made.Name, metav1.DeleteOptions{}), "delete the namespace")
	suite.WaitFor(ctx, t, "what remains told", func(ctx context.Context) (*corev1.Namespace, error) {
		return spaces.Get(ctx, made.Name, metav1.GetOptions{})
	}, HaveField("Status.Conditions", ContainElement(And(
		HaveField("Type", corev1.NamespaceFinalizersRemaining), HaveField("Status", corev1.ConditionTrue),
		HaveField("Message", ContainSubstring("conformance.quintet.dev/hold in 1 resource instances"))))))
	t.Must(release(ctx), "let the object go")
	suite.WaitFor(ctx, t, "the namespace is there", func(ctx context.Context) (bool, error) {
		_, err := spaces.Get(ctx, made.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return true, err
	}, BeFalse())
}
