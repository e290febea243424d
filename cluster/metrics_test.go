package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	registration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"quintet.dev/quintet/cluster/internal/addons"
)

// Hollow pods use what their annotations say, and the metrics API tells so.
func TestMetricsServer(t *testing.T) {
	c, client := started(t, WithNodes(2), WithMetricsServer(), WithArgs(MetricsServer, "--metric-resolution=1s"),
		WithArgs(ControllerManager, "--horizontal-pod-autoscaler-sync-period=1s"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "busy", Labels: map[string]string{"app": "busy"},
			Annotations: map[string]string{"hollow.quintet.dev/cpu": "250m", "hollow.quintet.dev/memory": "64Mi"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := metricsclient.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func(ctx context.Context) error {
		nodes, err := metrics.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
		if err != nil || len(nodes.Items) != 2 {
			return fmt.Errorf("metrics of %d nodes: %w", len(nodes.Items), err)
		}
		pods, err := metrics.MetricsV1beta1().PodMetricses("default").List(ctx,
			metav1.ListOptions{LabelSelector: "app=busy"})
		if err != nil || len(pods.Items) != 1 {
			return fmt.Errorf("metrics of %d pods: %w", len(pods.Items), err)
		}
		return busy(&pods.Items[0])
	}); err != nil {
		t.Fatal(err)
	}
	autoscalerReports(ctx, t, client)
	none, err := metrics.MetricsV1beta1().PodMetricses("default").List(ctx,
		metav1.ListOptions{LabelSelector: "app=other"})
	if err != nil || len(none.Items) != 0 {
		t.Errorf("metrics of other pods: %v, %v", none, err)
	}
}

// autoscalerReports runs a deployment at twice the CPU that it requests, and waits until its autoscaler tells so and
// scales.
func autoscalerReports(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	labels, one, target := map[string]string{"app": "scaled"}, int32(1), int32(50)
	if _, err := client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "scaled"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"hollow.quintet.dev/cpu": "200m"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("100m")}}}}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scalers := client.AutoscalingV2().HorizontalPodAutoscalers("default")
	if _, err := scalers.Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "scaled"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "scaled"},
			MinReplicas:    &one, MaxReplicas: 3,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
					Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &target}}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func(ctx context.Context) error {
		scaler, err := scalers.Get(ctx, "scaled", metav1.GetOptions{})
		if err != nil {
			return err
		}
		status := scaler.Status
		if status.DesiredReplicas != 3 || len(status.CurrentMetrics) != 1 || status.CurrentMetrics[0].Resource == nil ||
			*status.CurrentMetrics[0].Resource.Current.AverageUtilization < 190 {
			return fmt.Errorf("status of the autoscaler: %+v", status)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestMetricsServerAtAddresses: where the metrics server has addresses of its own, a Service leads there.
func TestMetricsServerAtAddresses(t *testing.T) {
	c, client := started(t, WithNodes(0))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	options := addons.MetricsServerOptions{User: metricsUser, Addresses: []string{"192.0.2.1", "2001:db8::1"}, Port: 10250}
	aggregator, err := registration.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, all is there
		if err := addons.Apply(ctx, client, addons.MetricsServerObjects(options)); err != nil {
			t.Fatal(err)
		}
		if err := addons.RegisterMetrics(ctx, aggregator, options); err != nil {
			t.Fatal(err)
		}
	}
	slices, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=metrics-server"})
	if err != nil || len(slices.Items) != 2 {
		t.Fatalf("%d slices, %v", len(slices.Items), err)
	}
	if err := until(ctx, func(ctx context.Context) error {
		service, err := aggregator.APIServices().Get(ctx, addons.MetricsAPIService, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range service.Status.Conditions {
			if condition.Reason == "FailedDiscoveryCheck" && strings.Contains(condition.Message, "192.0.2.1:10250") {
				return nil // the API server asks at the address, where nothing is
			}
		}
		return fmt.Errorf("conditions %+v", service.Status.Conditions)
	}); err != nil {
		t.Fatal(err)
	}
}

// TestMetricsServerOfFork: a fork's metrics are those of its own nodes, though its objects led to the other's server.
func TestMetricsServerOfFork(t *testing.T) {
	c, _ := started(t, WithNodes(1), WithMetricsServer())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	fork, err := c.Fork(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := fork.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	if err := c.Stop(ctx); err != nil { // so that it can't answer for the fork
		t.Fatal(err)
	}
	apis, err := registration.NewForConfig(fork.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	service, err := apis.APIServices().Get(ctx, addons.MetricsAPIService, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := fork.addressing.Port("metrics-server-0", metricsPort)
	if port := service.Spec.Service.Port; port == nil || int(*port) != own {
		t.Errorf("it is registered at port %v; the server's is %d", port, own)
	}
	if err := fork.WaitMetrics(ctx); err != nil {
		t.Error(err)
	}
}

// busy checks the usage of the pod.
func busy(pod *metricsv1beta1.PodMetrics) error {
	if len(pod.Containers) != 1 || pod.Window.Duration <= 0 {
		return fmt.Errorf("metrics %+v", pod)
	}
	used := pod.Containers[0].Usage
	if cpu := used.Cpu().MilliValue(); cpu < 240 || cpu > 260 {
		return fmt.Errorf("CPU usage %dm, want 250m", cpu)
	}
	if want := resource.MustParse("64Mi"); used.Memory().Cmp(want) != 0 {
		return fmt.Errorf("memory usage %v, want %v", used.Memory(), &want)
	}
	return nil
}
