package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"
)

// defaultWindow is over how much time a custom metric is taken that doesn't say so.
const defaultWindow = time.Minute

// RESTMetrics reads metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io, which are served by extensions
// of the API server
// (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#support-for-metrics-apis).
type RESTMetrics struct {
	PodUsage resourceclient.PodMetricsesGetter
	Custom   custom_metrics.CustomMetricsClient
	Outside  external_metrics.ExternalMetricsClient
	// Versions are those of the custom metrics; they are cached until the next Refresh.
	Versions custom_metrics.AvailableAPIsGetter
}

// Refresh implements Metrics.
func (r *RESTMetrics) Refresh() { r.Versions.Invalidate() }

// Resource implements Metrics.
func (r *RESTMetrics) Resource(ctx context.Context, namespace string, pods labels.Selector, name v1.ResourceName,
	container string) (map[string]PodMetric, error) {
	list, err := r.PodUsage.PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: pods.String()})
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	found := make(map[string]PodMetric, len(list.Items))
	for _, m := range list.Items {
		value, ok := podUsage(m.Containers, name)
		if container != "" {
			if value, ok, err = containerUsage(&m, name, container); err != nil {
				return nil, fmt.Errorf("failed to get container metrics: %w", err)
			}
		}
		if ok {
			found[m.Name] = PodMetric{Timestamp: m.Timestamp.Time, Window: m.Window.Duration, Value: value}
		}
	}
	return found, nil
}

// podUsage adds up the usage of all containers; it is unknown if that of one is.
func podUsage(containers []metrics.ContainerMetrics, name v1.ResourceName) (int64, bool) {
	var sum int64
	for _, c := range containers {
		used, ok := c.Usage[name]
		if !ok {
			return 0, false
		}
		sum += used.MilliValue()
	}
	return sum, len(containers) > 0
}

func containerUsage(m *metrics.PodMetrics, name v1.ResourceName, container string) (int64, bool, error) {
	for _, c := range m.Containers {
		if c.Name == container {
			used, ok := c.Usage[name]
			return used.MilliValue(), ok, nil
		}
	}
	return 0, false, fmt.Errorf("container %s not present in metrics for pod %s/%s", container, m.Namespace, m.Name)
}

// Pods implements Metrics.
func (r *RESTMetrics) Pods(namespace string, pods, metric labels.Selector, name string) (map[string]PodMetric, error) {
	list, err := r.Custom.NamespacedMetrics(namespace).GetForObjects(schema.GroupKind{Kind: "Pod"}, pods, name, metric)
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from custom metrics API")
	}
	found := make(map[string]PodMetric, len(list.Items))
	for _, m := range list.Items {
		window := defaultWindow
		if m.WindowSeconds != nil {
			window = time.Duration(*m.WindowSeconds) * time.Second
		}
		found[m.DescribedObject.Name] = PodMetric{Timestamp: m.Timestamp.Time, Window: window, Value: m.Value.MilliValue()}
	}
	return found, nil
}

// Object implements Metrics.
func (r *RESTMetrics) Object(namespace string, object autoscaling.CrossVersionObjectReference, metric labels.Selector,
	name string) (int64, error) {
	kind := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind).GroupKind()
	var value *v1beta2.MetricValue
	var err error
	if kind == (schema.GroupKind{Kind: "Namespace"}) {
		// It is always the autoscaler's own namespace: a reference can't leave it.
		value, err = r.Custom.RootScopedMetrics().GetForObject(kind, namespace, name, metric)
	} else {
		value, err = r.Custom.NamespacedMetrics(namespace).GetForObject(kind, object.Name, name, metric)
	}
	if err != nil {
		return 0, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	return value.Value.MilliValue(), nil
}

// External implements Metrics.
func (r *RESTMetrics) External(namespace string, metric labels.Selector, name string) ([]int64, error) {
	list, err := r.Outside.NamespacedMetrics(namespace).List(name, metric)
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from external metrics API")
	}
	var values []int64
	for _, m := range list.Items {
		values = append(values, m.Value.MilliValue())
	}
	return values, nil
}
