package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// observed is all that a decision depends on.
type observed struct {
	hpa      *autoscaling.HorizontalPodAutoscaler
	current  int32 // replicas that the target asks for
	existing int32 // replicas that the target has
	// selector is why the pods can't be told; nil if they can.
	selector *failure
	pods     []*v1.Pod
	samples  []sample // of hpa.Spec.Metrics, in their order
	history  history
	now      time.Time
	options  Options
}

// course is which way a decision is made.
type course int

const (
	byMetrics course = iota
	disabled         // the target was scaled to nothing by something else
	aboveMaximum
	belowMinimum
)

// course needs neither pods nor samples; only byMetrics does.
func (o observed) course() course {
	switch {
	case o.current == 0:
		asleep := o.options.ScaleToZero && scaledToZero(o.hpa)
		if asleep && (o.minimum() != 0 || wakes(o.hpa)) {
			return byMetrics
		}
		return disabled
	case o.current > o.hpa.Spec.MaxReplicas:
		return aboveMaximum
	case o.current < o.minimum():
		return belowMinimum
	}
	return byMetrics
}

func (o observed) minimum() int32 { return ptr.Deref(o.hpa.Spec.MinReplicas, 1) }

func (o observed) workload() workload {
	return workload{pods: o.pods, replicas: o.current, now: o.now, tolerance: o.options.tolerance(o.hpa),
		options: o.options}
}

// scaledToZero tells whether it was the autoscaler that scaled its target to nothing (KEP-2021).
func scaledToZero(hpa *autoscaling.HorizontalPodAutoscaler) bool {
	return slices.ContainsFunc(hpa.Status.Conditions, func(c autoscaling.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscaling.ScaledToZero && c.Status == v1.ConditionTrue
	})
}

// wakes tells whether an autoscaler has a metric that has a value without any pods.
func wakes(hpa *autoscaling.HorizontalPodAutoscaler) bool {
	return slices.ContainsFunc(hpa.Spec.Metrics, func(m autoscaling.MetricSpec) bool {
		return m.Type == autoscaling.ObjectMetricSourceType || m.Type == autoscaling.ExternalMetricSourceType
	})
}

// computed is what came of one metric.
type computed struct {
	metric   autoscaling.MetricSourceType
	replicas int32 // of no meaning if the metric failed
	err      error
	took     time.Duration
}

// event is one to record at the autoscaler.
type event struct{ kind, reason, message string }

// plan is what follows from an observation.
type plan struct {
	status  autoscaling.HorizontalPodAutoscalerStatus
	desired int32
	rescale bool
	reason  string // of scaling
	events  []event
	history history
	// computed is what came of each metric.
	computed []computed
	// err is why some metrics, or all, were of no use. It goes to the log.
	err error
}

func newPlan(o observed) plan {
	return plan{status: *o.hpa.Status.DeepCopy(), history: o.history}
}

// noScale is the plan if the target's size isn't known.
func noScale(o observed, cause error) plan {
	p := newPlan(o)
	p.warn("FailedGetScale", cause.Error())
	p.set(o.now, autoscaling.AbleToScale, v1.ConditionFalse, "FailedGetScale",
		fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", cause))
	return p
}

// decide returns the number of pods that the target is to have, and the status that says why.
func decide(o observed) plan {
	p := newPlan(o)
	p.set(o.now, autoscaling.AbleToScale, v1.ConditionTrue, "SucceededGetScale",
		"the HPA controller was able to get the target's current scale")
	p.history = p.history.started(o.now, o.current)
	var metrics []autoscaling.MetricStatus
	switch o.course() {
	case disabled:
		p.desired = 0
		p.set(o.now, autoscaling.ScalingActive, v1.ConditionFalse, "ScalingDisabled",
			"scaling is disabled since the replica count of the target is zero")
		if !o.options.ScaleToZero {
			p.unset(autoscaling.ScaledToZero)
		}
	case aboveMaximum:
		p.desired, p.rescale = o.hpa.Spec.MaxReplicas, true
		p.reason = "Current number of replicas above Spec.MaxReplicas"
	case belowMinimum:
		p.desired, p.rescale = o.minimum(), true
		p.reason = "Current number of replicas below Spec.MinReplicas"
	case byMetrics:
		proposed, found := p.propose(o)
		metrics = found
		if proposed == nil {
			p.desired = o.hpa.Status.DesiredReplicas
			p.warn("FailedComputeMetricsReplicas", p.err.Error())
			break
		}
		p.follow(o, *proposed)
	}
	p.status.CurrentReplicas, p.status.DesiredReplicas, p.status.CurrentMetrics = o.current, p.desired, metrics
	p.status.ObservedGeneration = nil // The release has no generations of autoscalers.
	return p
}

// propose returns the greatest of what the metrics ask for; nil if that can't be told. Metrics that fail are left out
// unless the others ask for fewer pods than there are.
func (p *plan) propose(o observed) (*proposal, []autoscaling.MetricStatus) {
	if f := o.selector; f != nil {
		p.fail(o, *f)
		return nil, nil
	}
	statuses := make([]autoscaling.MetricStatus, len(o.hpa.Spec.Metrics))
	var best proposal
	var first *failure
	failed := 0
	for i, spec := range o.hpa.Spec.Metrics {
		proposed, f := o.evaluate(spec, o.samples[i])
		p.computed = append(p.computed, computed{metric: spec.Type, replicas: proposed.replicas, took: o.samples[i].took})
		if f != nil {
			p.computed[i].err = f.err
			p.warn(f.reason, f.event)
			if failed++; first == nil {
				first = f
			}
			continue
		}
		statuses[i] = proposed.status
		if best.replicas == 0 || proposed.replicas > best.replicas {
			best = proposed
		}
	}
	if first != nil {
		p.err = fmt.Errorf("invalid metrics (%d invalid out of %d), first error is: %w", failed, len(statuses), first.err)
	} else if len(statuses) == 0 {
		p.err = errors.New("the autoscaler has no metrics")
		return nil, nil
	}
	if failed == len(statuses) || (failed > 0 && best.replicas < o.current) {
		p.set(o.now, autoscaling.ScalingActive, v1.ConditionFalse, first.reason, first.message)
		return nil, statuses
	}
	p.set(o.now, autoscaling.ScalingActive, v1.ConditionTrue, "ValidMetricFound",
		"the HPA was able to successfully calculate a replica count from "+best.metric)
	return &best, statuses
}

// follow turns what the metrics ask for into what is done now.
func (p *plan) follow(o observed, best proposal) {
	if best.replicas > o.current {
		p.reason = best.metric + " above target"
	} else if best.replicas < o.current {
		p.reason = "All metrics below target"
	}
	p.desired = p.normalize(o, best.replicas)
	if o.current == 0 {
		p.desired = max(p.desired, o.minimum())
		if p.reason == "" && p.desired > 0 {
			p.reason = "Current number of replicas below Spec.MinReplicas"
		}
	}
	p.rescale = p.desired != o.current
}

// scaled completes the plan after the target was scaled.
func (p *plan) scaled(o observed) {
	p.set(o.now, autoscaling.AbleToScale, v1.ConditionTrue, "SucceededRescale",
		fmt.Sprintf("the HPA controller was able to update the target scale to %d", p.desired))
	p.events = append(p.events, event{v1.EventTypeNormal, "SuccessfulRescale",
		fmt.Sprintf("New size: %d; reason: %s", p.desired, p.reason)})
	p.history = p.history.scaled(o.now, o.current, p.desired, o.hpa.Spec.Behavior)
	p.status.LastScaleTime = ptr.To(metav1.NewTime(o.now))
	switch {
	case !o.options.ScaleToZero:
		p.unset(autoscaling.ScaledToZero)
	case p.desired == 0 && o.minimum() == 0 && wakes(o.hpa):
		p.set(o.now, autoscaling.ScaledToZero, v1.ConditionTrue, "ScaledToZero",
			"the HPA controller scaled the workload to zero")
	default:
		p.set(o.now, autoscaling.ScaledToZero, v1.ConditionFalse, "NotScaledToZero",
			"the HPA controller did not scale the workload to zero")
	}
}

// notScaled completes the plan after the target could not be scaled.
func (p *plan) notScaled(o observed, cause error) {
	p.warn("FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", p.desired, p.reason, cause))
	p.set(o.now, autoscaling.AbleToScale, v1.ConditionFalse, "FailedUpdateScale",
		fmt.Sprintf("the HPA controller was unable to update the target scale: %v", cause))
	p.status.DesiredReplicas = o.hpa.Status.DesiredReplicas
}

func (p *plan) fail(o observed, f failure) {
	p.warn(f.reason, f.event)
	reason := f.reason
	if reason == "SelectorRequired" { // which events call it; the condition has one reason for all bad selectors
		reason = "InvalidSelector"
	}
	p.set(o.now, autoscaling.ScalingActive, v1.ConditionFalse, reason, f.message)
	p.err = f.err
}

func (p *plan) warn(reason, message string) {
	p.events = append(p.events, event{v1.EventTypeWarning, reason, message})
}

// set sets a condition; its time changes only with its status.
func (p *plan) set(now time.Time, t autoscaling.HorizontalPodAutoscalerConditionType, status v1.ConditionStatus, reason,
	message string) {
	all := p.status.Conditions
	at := slices.IndexFunc(all, func(c autoscaling.HorizontalPodAutoscalerCondition) bool { return c.Type == t })
	if at < 0 {
		at = len(all)
		all = append(all, autoscaling.HorizontalPodAutoscalerCondition{Type: t})
	}
	if all[at].Status != status {
		all[at].LastTransitionTime = metav1.NewTime(now)
	}
	all[at].Status, all[at].Reason, all[at].Message = status, reason, message
	p.status.Conditions = all
}

func (p *plan) unset(t autoscaling.HorizontalPodAutoscalerConditionType) {
	p.status.Conditions = slices.DeleteFunc(p.status.Conditions,
		func(c autoscaling.HorizontalPodAutoscalerCondition) bool { return c.Type == t })
}

// parseSelector reads the selector of a target's scale.
func parseSelector(text string) (labels.Selector, *failure) {
	if text == "" {
		const missing = "selector is required"
		return nil, &failure{reason: "SelectorRequired", event: missing,
			message: "the HPA target's scale is missing a selector", err: errors.New(missing)}
	}
	selector, err := labels.Parse(text)
	if err != nil {
		message := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err)
		return nil, &failure{reason: "InvalidSelector", event: message, message: message, err: errors.New(message)}
	}
	return selector, nil
}

// ambiguous is the failure of an autoscaler whose pods others select as well; nil if it is alone. Owners are the keys,
// namespace/name, of all that select them.
func ambiguous(selector string, owners []string) *failure {
	if len(owners) < 2 {
		return nil
	}
	message := fmt.Sprintf("pods by selector %s are controlled by multiple HPAs: [%s]", selector,
		strings.Join(owners, " "))
	return &failure{reason: "AmbiguousSelector", event: message, message: message, err: errors.New(message)}
}
