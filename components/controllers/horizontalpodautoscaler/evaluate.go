package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sample is what was read for one metric of an autoscaler: by pod, or as values of anything else, in thousandths.
type sample struct {
	pods   map[string]PodMetric
	values []int64
	err    error
	took   time.Duration // to read
}

// proposal is the number of pods that one metric asks for.
type proposal struct {
	replicas int32
	metric   string // what the metric is called in conditions and events
	status   autoscaling.MetricStatus
}

var errUnknownType = errors.New("unknown metric source type")

// failure is why there is no proposal.
type failure struct {
	reason  string // of the event, and of the condition ScalingActive
	event   string
	message string // of the condition
	err     error
}

// unable is the failure to compute the number of pods for one metric; context is put before the cause in the error.
func unable(reason, context string, cause error) *failure {
	return &failure{reason: reason, event: cause.Error(),
		message: fmt.Sprintf("the HPA was unable to compute the replica count: %v", cause),
		err:     fmt.Errorf("%s: %w", context, cause)}
}

// evaluate computes the number of pods that a metric asks for from its sample.
func (o observed) evaluate(spec autoscaling.MetricSpec, s sample) (proposal, *failure) {
	w := o.workload()
	var p proposal
	var err error
	switch spec.Type {
	case autoscaling.ObjectMetricSourceType:
		if p, err = o.object(w, spec.Object, s); err != nil {
			return p, unable("FailedGetObjectMetric", "failed to get object metric value", err)
		}
	case autoscaling.PodsMetricSourceType:
		if p, err = perPod(w, spec.Pods, s); err != nil {
			return p, unable("FailedGetPodsMetric", "failed to get pods metric value", err)
		}
	case autoscaling.ResourceMetricSourceType:
		if p, err = ofPods(w, spec.Resource, s); err != nil {
			return p, unable("FailedGetResourceMetric",
				fmt.Sprintf("failed to get %s resource metric value", spec.Resource.Name), err)
		}
	case autoscaling.ContainerResourceMetricSourceType:
		if p, err = ofContainers(w, spec.ContainerResource, s); err != nil {
			return p, unable("FailedGetContainerResourceMetric",
				fmt.Sprintf("failed to get %s container metric value", spec.ContainerResource.Container), err)
		}
	case autoscaling.ExternalMetricSourceType:
		if p, err = o.external(w, spec.External, s); err != nil {
			return p, unable("FailedGetExternalMetric",
				fmt.Sprintf("failed to get %s external metric value", spec.External.Metric.Name), err)
		}
	default:
		err = fmt.Errorf("%w %q", errUnknownType, spec.Type)
		f := unable("InvalidMetricSourceType", "", err)
		f.err = err
		return p, f
	}
	p.status.Type = spec.Type
	return p, nil
}

func (o observed) object(w workload, spec *autoscaling.ObjectMetricSource, s sample) (proposal, error) {
	var current autoscaling.MetricValueStatus
	p := proposal{metric: fmt.Sprintf("%s metric %s", spec.DescribedObject.Kind, spec.Metric.Name)}
	target := spec.Target
	switch {
	case target.Type == autoscaling.ValueMetricType && target.Value != nil:
		if s.err != nil {
			return p, s.err
		}
		value := sum(s.values)
		var err error
		if p.replicas, err = w.byRatio(float64(value) / float64(target.Value.MilliValue())); err != nil {
			return p, err
		}
		current.Value = milli(value)
	case target.Type == autoscaling.AverageValueMetricType && target.AverageValue != nil:
		if s.err != nil {
			return p, fmt.Errorf("failed to get %s object metric: %w", spec.Metric.Name, s.err)
		}
		// Upstream names it so.
		p.metric = fmt.Sprintf("external metric %s(%+v)", spec.Metric.Name, spec.Metric.Selector)
		p.replicas, current.AverageValue = o.shared(w, sum(s.values), target.AverageValue.MilliValue())
	default:
		return p, errors.New(
			"invalid object metric source: neither a value target nor an average value target was set")
	}
	p.status.Object = &autoscaling.ObjectMetricStatus{DescribedObject: spec.DescribedObject, Metric: spec.Metric,
		Current: current}
	return p, nil
}

func (o observed) external(w workload, spec *autoscaling.ExternalMetricSource, s sample) (proposal, error) {
	var current autoscaling.MetricValueStatus
	name := spec.Metric.Name
	p := proposal{metric: fmt.Sprintf("external metric %s(%+v)", name, spec.Metric.Selector)}
	switch target := spec.Target; {
	case target.AverageValue != nil:
		if s.err != nil {
			return p, fmt.Errorf("failed to get %s external metric: %w", name, s.err)
		}
		p.replicas, current.AverageValue = o.shared(w, sum(s.values), target.AverageValue.MilliValue())
	case target.Value != nil:
		err := s.err
		value := sum(s.values)
		if err == nil {
			p.replicas, err = w.byRatio(float64(value) / float64(target.Value.MilliValue()))
		}
		if err != nil {
			return p, fmt.Errorf("failed to get external metric %s: %w", name, err)
		}
		current.Value = milli(value)
	default:
		return p, errors.New(
			"invalid external metric source: neither a value target nor an average value target was set")
	}
	p.status.External = &autoscaling.ExternalMetricStatus{Metric: spec.Metric, Current: current}
	return p, nil
}

// byRatio returns the number of pods for a value that isn't measured at pods: the ready ones share it, and if there are
// to be none yet, one pod is needed for each time the target.
func (w workload) byRatio(ratio float64) (int32, error) {
	if w.replicas == 0 {
		return ceil(ratio), nil
	}
	if w.tolerance.covers(ratio) {
		return w.replicas, nil
	}
	ready, err := w.readyPods()
	if err != nil {
		return 0, fmt.Errorf("unable to calculate ready pods: %w", err)
	}
	return ceil(ratio * float64(ready)), nil
}

// shared returns the number of pods that bring each one's share of value to the target, and the share that each of the
// existing ones has now.
func (o observed) shared(w workload, value, target int64) (int32, *resource.Quantity) {
	replicas := o.existing
	if !w.tolerance.covers(float64(value) / (float64(target) * float64(o.existing))) {
		replicas = ceil(float64(value) / float64(target))
	}
	switch {
	case value == math.MaxInt64:
		return replicas, milli(value)
	case o.existing == 0:
		return replicas, milli(0)
	}
	return replicas, milli(int64(math.Ceil(float64(value) / float64(o.existing))))
}

func perPod(w workload, spec *autoscaling.PodsMetricSource, s sample) (proposal, error) {
	p := proposal{metric: "pods metric " + spec.Metric.Name}
	if s.err != nil {
		return p, s.err
	}
	if len(w.pods) == 0 {
		return p, errNoPods
	}
	replicas, now, err := w.size(s.pods, "", plain(spec.Target.AverageValue.MilliValue()))
	if err != nil {
		return p, err
	}
	p.replicas = replicas
	p.status.Pods = &autoscaling.PodsMetricStatus{Metric: spec.Metric,
		Current: autoscaling.MetricValueStatus{AverageValue: milli(now.value)}}
	return p, nil
}

func ofPods(w workload, spec *autoscaling.ResourceMetricSource, s sample) (proposal, error) {
	p, current, err := ofResource(w, spec.Name, "", spec.Target, s)
	p.status.Resource = &autoscaling.ResourceMetricStatus{Name: spec.Name, Current: current}
	return p, err
}

func ofContainers(w workload, spec *autoscaling.ContainerResourceMetricSource, s sample) (proposal, error) {
	p, current, err := ofResource(w, spec.Name, spec.Container, spec.Target, s)
	p.status.ContainerResource = &autoscaling.ContainerResourceMetricStatus{Name: spec.Name, Container: spec.Container,
		Current: current}
	return p, err
}

// ofResource compares the usage of a resource, by whole pods or by one container of each, with its target.
func ofResource(w workload, name v1.ResourceName, container string, target autoscaling.MetricTarget,
	s sample) (proposal,
	autoscaling.MetricValueStatus, error) {
	var current autoscaling.MetricValueStatus
	what := "usage"
	p := proposal{metric: fmt.Sprintf("%s resource", name)}
	if target.AverageValue == nil {
		if target.AverageUtilization == nil {
			return p, current, errors.New("invalid resource metric source: neither an average utilization target nor " +
				"an average value (usage) target was set")
		}
		what = "utilization"
		p.metric = fmt.Sprintf("%s resource utilization (percentage of request)", name)
		if container != "" {
			p.metric = fmt.Sprintf("%s container resource utilization (percentage of request)", name)
		}
	}
	replicas, now, err := w.ofResource(name, container, target, s)
	if err != nil {
		return p, current, fmt.Errorf("failed to get %s %s: %w", name, what, err)
	}
	p.replicas = replicas
	format := resource.DecimalSI
	if name == v1.ResourceMemory {
		format = resource.BinarySI
	}
	current.AverageValue = resource.NewMilliQuantity(now.value, format)
	if target.AverageValue == nil {
		current.AverageUtilization = &now.percent
	}
	return p, current, nil
}

func (w workload) ofResource(name v1.ResourceName, container string, target autoscaling.MetricTarget, s sample) (int32,
	usage, error) {
	if s.err != nil {
		return 0, usage{}, s.err
	}
	if len(w.pods) == 0 {
		return 0, usage{}, errNoPods
	}
	if target.AverageValue != nil {
		return w.size(s.pods, name, plain(target.AverageValue.MilliValue()))
	}
	if len(w.group(s.pods, name).sampled) == 0 {
		return 0, usage{}, errNoSamples // which says more than that a request is missing
	}
	requests, err := w.requests(name, container)
	if err != nil {
		return 0, usage{}, err
	}
	return w.size(s.pods, name, ofRequests(requests, *target.AverageUtilization))
}

// sum adds up values and stays within the range of a number.
func sum(values []int64) int64 {
	var total int64
	for _, v := range values {
		if v > 0 && total > math.MaxInt64-v {
			return math.MaxInt64
		}
		total += v
	}
	return total
}

func milli(value int64) *resource.Quantity {
	return resource.NewMilliQuantity(value, resource.DecimalSI)
}
