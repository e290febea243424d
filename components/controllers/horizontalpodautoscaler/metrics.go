package horizontalpodautoscaler

import (
	"context"
	"fmt"

	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
)

// Metrics reads metrics of a namespace; values are in thousandths. It is used concurrently. Errors, and results without
// any value, are told in upstream's words, as they end up in events.
type Metrics interface {
	// Resource returns the usage of a resource by the selected pods, or by one container of each. Pods whose usage is
	// unknown are missing from the result, which belongs to the caller.
	Resource(ctx context.Context, namespace string, pods labels.Selector, name v1.ResourceName,
		container string) (map[string]PodMetric, error)
	// Pods returns a metric of the selected pods; the result belongs to the caller.
	Pods(namespace string, pods, metric labels.Selector, name string) (map[string]PodMetric, error)
	// Object returns a metric of one object.
	Object(namespace string, object autoscaling.CrossVersionObjectReference, metric labels.Selector,
		name string) (int64, error)
	// External returns all series of a metric that has nothing to do with any object.
	External(namespace string, metric labels.Selector, name string) ([]int64, error)
	// Refresh lets the next request find out which versions of the metrics are served.
	Refresh()
}

// read returns the sample of each metric of an autoscaler.
func read(ctx context.Context, from Metrics, hpa *autoscaling.HorizontalPodAutoscaler, pods labels.Selector,
	clock clock.PassiveClock) []sample {
	all := make([]sample, len(hpa.Spec.Metrics))
	for i, spec := range hpa.Spec.Metrics {
		s, began := &all[i], clock.Now()
		switch spec.Type {
		case autoscaling.ResourceMetricSourceType:
			s.pods, s.err = ofResourceMetric(ctx, from, hpa.Namespace, pods, spec.Resource.Name, "")
		case autoscaling.ContainerResourceMetricSourceType:
			s.pods, s.err = ofResourceMetric(ctx, from, hpa.Namespace, pods, spec.ContainerResource.Name,
				spec.ContainerResource.Container)
		case autoscaling.PodsMetricSourceType:
			s.pods, s.err = ofPodsMetric(from, hpa.Namespace, pods, spec.Pods.Metric)
		case autoscaling.ObjectMetricSourceType:
			s.values, s.err = ofObjectMetric(from, hpa.Namespace, spec.Object)
		case autoscaling.ExternalMetricSourceType:
			s.values, s.err = ofExternalMetric(from, hpa.Namespace, spec.External.Metric)
		}
		s.took = clock.Since(began)
	}
	return all
}

func ofResourceMetric(ctx context.Context, from Metrics, namespace string, pods labels.Selector, name v1.ResourceName,
	container string) (map[string]PodMetric, error) {
	found, err := from.Resource(ctx, namespace, pods, name, container)
	if err != nil {
		return nil, fmt.Errorf("unable to get metrics for resource %s: %w", name, err)
	}
	return found, nil
}

func ofPodsMetric(from Metrics, namespace string, pods labels.Selector,
	metric autoscaling.MetricIdentifier) (map[string]PodMetric, error) {
	selector, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return nil, err
	}
	found, err := from.Pods(namespace, pods, selector, metric.Name)
	if err != nil {
		return nil, fmt.Errorf("unable to get metric %s: %w", metric.Name, err)
	}
	return found, nil
}

func ofObjectMetric(from Metrics, namespace string, spec *autoscaling.ObjectMetricSource) ([]int64, error) {
	selector, err := metav1.LabelSelectorAsSelector(spec.Metric.Selector)
	if err != nil {
		return nil, err
	}
	value, err := from.Object(namespace, spec.DescribedObject, selector, spec.Metric.Name)
	if err != nil {
		return nil, fmt.Errorf("unable to get metric %s on %s %s/%s: %w", spec.Metric.Name, spec.DescribedObject.Kind,
			namespace, spec.DescribedObject.Name, err)
	}
	return []int64{value}, nil
}

func ofExternalMetric(from Metrics, namespace string, metric autoscaling.MetricIdentifier) ([]int64, error) {
	selector, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return nil, err
	}
	values, err := from.External(namespace, selector, metric.Name)
	if err != nil {
		return nil, fmt.Errorf("unable to get external metric %s/%s/%+v: %w", namespace, metric.Name, metric.Selector, err)
	}
	return values, nil
}
