package autoscaling

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/conformance/suite"
)

// metricsTimeout is for two scrapes of kubelets, a minute apart by default, and two looks of the autoscaler.
const metricsTimeout = 5 * time.Minute

// metricsWait is how long usage may take to be served.
const metricsWait = 4 * time.Minute

// measured makes a deployment that runs, and an autoscaler on the CPU utilization of its pods.
func measured(ctx context.Context, t *suite.T) {
	pod := t.Pod("measured")
	pod.Labels = map[string]string{"app": "measured"}
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Args = []string{"serve", "--http=:8080"}
		pod.Spec.Containers[i].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
	}
	one, utilization := int32(1), int32(90)
	_, err := t.Client.AppsV1().Deployments(t.Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "measured"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	t.Must(err, "create the deployment")
	_, err = t.Client.AutoscalingV2().HorizontalPodAutoscalers(t.Namespace).Create(ctx,
		&autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "scaler"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
					APIVersion: "apps/v1", Kind: "Deployment", Name: "measured",
				},
				MinReplicas: &one, MaxReplicas: 2,
				Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization,
					}},
				}},
			},
		}, metav1.CreateOptions{})
	t.Must(err, "create the autoscaler")
}

// waitUsage polls get until its value matches.
func waitUsage[V any](ctx context.Context, t *suite.T, what string, get func(ctx context.Context) (V, error),
	match gtypes.GomegaMatcher) {
	t.Eventually(func() (V, error) { return get(ctx) }).
		WithContext(ctx).WithTimeout(metricsWait).WithPolling(500*time.Millisecond).Should(match, what)
}

func resourceMetrics(ctx context.Context, t *suite.T) {
	measured(ctx, t)
	served := t.Dynamic.Resource(schema.GroupVersionResource{
		Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}).Namespace(t.Namespace)
	waitUsage(ctx, t, "usage of the pod", func(ctx context.Context) ([]string, error) {
		list, err := served.List(ctx, metav1.ListOptions{LabelSelector: "app=measured"})
		if err != nil {
			return nil, err
		}
		return usages(list, "containers")
	}, HaveLen(1))
	none, err := served.List(ctx, metav1.ListOptions{LabelSelector: "app=other"})
	t.Must(err, "list the usage of other pods")
	t.Expect(none.Items).To(BeEmpty(), "usage of pods that the selector does not match")

	nodes, err := t.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	t.Must(err, "list the nodes")
	waitUsage(ctx, t, "usage of the nodes", func(ctx context.Context) ([]string, error) {
		list, err := t.Dynamic.Resource(schema.GroupVersionResource{
			Group: "metrics.k8s.io", Version: "v1beta1", Resource: "nodes"}).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return usages(list, "")
	}, ContainElement(nodes.Items[0].Name))

	waitUsage(ctx, t, "the autoscaler's current CPU utilization",
		func(ctx context.Context) (*autoscalingv2.HorizontalPodAutoscaler, error) {
			return t.Client.AutoscalingV2().HorizontalPodAutoscalers(t.Namespace).Get(ctx, "scaler", metav1.GetOptions{})
		}, HaveField("Status.CurrentMetrics", ContainElement(
			HaveField("Resource.Current.AverageUtilization", Not(BeNil())))))
}

// usages are the names of objects with a usage of CPU and memory, or with one of each container.
func usages(list *unstructured.UnstructuredList, containers string) ([]string, error) {
	var names []string
	for _, item := range list.Items {
		parts := []any{item.Object}
		if containers != "" {
			parts, _, _ = unstructured.NestedSlice(item.Object, containers)
		}
		for _, part := range parts {
			object, _ := part.(map[string]any)
			used, _, err := unstructured.NestedStringMap(object, "usage")
			if err != nil {
				return nil, err
			}
			for _, name := range []string{"cpu", "memory"} {
				if _, err := resource.ParseQuantity(used[name]); err != nil {
					return nil, fmt.Errorf("%s of %s: %q: %w", name, item.GetName(), used[name], err)
				}
			}
		}
		if len(parts) > 0 {
			names = append(names, item.GetName())
		}
	}
	return names, nil
}
