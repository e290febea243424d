package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func quantity(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }

func utilization(percent int32) autoscaling.MetricTarget {
	return autoscaling.MetricTarget{Type: autoscaling.UtilizationMetricType, AverageUtilization: &percent}
}

func average(text string) autoscaling.MetricTarget {
	return autoscaling.MetricTarget{Type: autoscaling.AverageValueMetricType, AverageValue: quantity(text)}
}

func value(text string) autoscaling.MetricTarget {
	return autoscaling.MetricTarget{Type: autoscaling.ValueMetricType, Value: quantity(text)}
}

func ofCPU(target autoscaling.MetricTarget) autoscaling.MetricSpec {
	return autoscaling.MetricSpec{Type: autoscaling.ResourceMetricSourceType,
		Resource: &autoscaling.ResourceMetricSource{Name: v1.ResourceCPU, Target: target}}
}

func ofContainer(target autoscaling.MetricTarget) autoscaling.MetricSpec {
	return autoscaling.MetricSpec{Type: autoscaling.ContainerResourceMetricSourceType,
		ContainerResource: &autoscaling.ContainerResourceMetricSource{Name: v1.ResourceCPU, Container: "main",
			Target: target}}
}

func ofPod(target autoscaling.MetricTarget) autoscaling.MetricSpec {
	return autoscaling.MetricSpec{Type: autoscaling.PodsMetricSourceType,
		Pods: &autoscaling.PodsMetricSource{Metric: autoscaling.MetricIdentifier{Name: "qps"}, Target: target}}
}

func ofObject(target autoscaling.MetricTarget) autoscaling.MetricSpec {
	return autoscaling.MetricSpec{Type: autoscaling.ObjectMetricSourceType, Object: &autoscaling.ObjectMetricSource{
		DescribedObject: autoscaling.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "web"},
		Metric:          autoscaling.MetricIdentifier{Name: "qps"}, Target: target}}
}

func ofQueue(target autoscaling.MetricTarget) autoscaling.MetricSpec {
	return autoscaling.MetricSpec{Type: autoscaling.ExternalMetricSourceType, External: &autoscaling.ExternalMetricSource{
		Metric: autoscaling.MetricIdentifier{Name: "queue"}, Target: target}}
}

func amounts(all ...int64) sample { return sample{values: all} }

func TestEvaluate(t *testing.T) {
	cpu := sample{pods: values(1000, 1000, 1000)}
	for name, tc := range map[string]struct {
		spec   autoscaling.MetricSpec
		sample sample
		want   string // size, metric, current
	}{
		"utilization": {ofCPU(utilization(50)), cpu, "6 cpu resource utilization (percentage of request) 1/100%"},
		"usage":       {ofCPU(average("500m")), cpu, "6 cpu resource 1"},
		"container": {ofContainer(utilization(50)), cpu,
			"6 cpu container resource utilization (percentage of request) 1/100%"},
		"container usage": {ofContainer(average("2")), cpu, "2 cpu resource 1"},
		"pods":            {ofPod(average("500m")), cpu, "6 pods metric qps 1"},
		"object":          {ofObject(value("10")), amounts(20000), "6 Service metric qps 20"},
		"object, close":   {ofObject(value("10")), amounts(10900), "3 Service metric qps 10900m"},
		"object average":  {ofObject(average("5")), amounts(40000), "8 external metric qps(nil) 13334m"},
		"external":        {ofQueue(value("10")), amounts(10000, 10000), "6 external metric queue(nil) 20"},
		"external average": {ofQueue(average("10")), amounts(30000, 20001),
			"6 external metric queue(nil) 16667m"},
		"external, close": {ofQueue(average("10")), amounts(31000), "3 external metric queue(nil) 10334m"},
	} {
		o := observed{hpa: scaler(1, 100, nil), current: 3, existing: 3, pods: some(3), now: now, options: defaults()}
		p, f := o.evaluate(tc.spec, tc.sample)
		if f != nil {
			t.Errorf("%s: %v", name, f.err)
			continue
		}
		if got := fmt.Sprintf("%d %s %s", p.replicas, p.metric, shown(t, p.status)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// shown is the current value in a status, which has to be of the type that it says.
func shown(t *testing.T, s autoscaling.MetricStatus) string {
	t.Helper()
	current := map[autoscaling.MetricSourceType]func() autoscaling.MetricValueStatus{
		autoscaling.ResourceMetricSourceType: func() autoscaling.MetricValueStatus { return s.Resource.Current },
		autoscaling.ContainerResourceMetricSourceType: func() autoscaling.MetricValueStatus {
			return s.ContainerResource.Current
		},
		autoscaling.PodsMetricSourceType:     func() autoscaling.MetricValueStatus { return s.Pods.Current },
		autoscaling.ObjectMetricSourceType:   func() autoscaling.MetricValueStatus { return s.Object.Current },
		autoscaling.ExternalMetricSourceType: func() autoscaling.MetricValueStatus { return s.External.Current },
	}[s.Type]()
	switch {
	case current.AverageUtilization != nil:
		return fmt.Sprintf("%s/%d%%", current.AverageValue, *current.AverageUtilization)
	case current.Value != nil:
		return current.Value.String()
	}
	return current.AverageValue.String()
}

func TestEvaluateFails(t *testing.T) {
	gone := sample{err: errors.New("gone")}
	for want, spec := range map[string]autoscaling.MetricSpec{
		"FailedGetResourceMetric: failed to get cpu resource metric value: failed to get cpu utilization: " +
			"gone": ofCPU(utilization(50)),
		"FailedGetResourceMetric: failed to get cpu resource metric value: failed to get cpu usage: " +
			"gone": ofCPU(average("1")),
		"FailedGetContainerResourceMetric: failed to get main container metric value: failed to get cpu utilization: " +
			"gone": ofContainer(utilization(50)),
		"FailedGetPodsMetric: failed to get pods metric value: " +
			"gone": ofPod(average("1")),
		"FailedGetObjectMetric: failed to get object metric value: " +
			"gone": ofObject(value("1")),
		"FailedGetObjectMetric: failed to get object metric value: failed to get qps object metric: " +
			"gone": ofObject(average("1")),
		"FailedGetExternalMetric: failed to get queue external metric value: failed to get external metric queue: " +
			"gone": ofQueue(value("1")),
		"FailedGetExternalMetric: failed to get queue external metric value: failed to get queue external metric: " +
			"gone": ofQueue(average("1")),
		`InvalidMetricSourceType: unknown metric source type "Moon"`: {Type: "Moon"},
	} {
		o := observed{hpa: scaler(1, 100, nil), current: 3, existing: 3, pods: some(3), now: now, options: defaults()}
		_, f := o.evaluate(spec, gone)
		if f == nil || f.reason+": "+f.err.Error() != want {
			t.Errorf("%+v, want %s", f, want)
			continue
		}
		if !strings.HasSuffix(f.err.Error(), f.event) ||
			f.message != "the HPA was unable to compute the replica count: "+f.event {
			t.Errorf("%s: event %q, condition %q", want, f.event, f.message)
		}
	}
}

// outcome is a plan in short: what is desired, the conditions, the reasons of events.
func outcome(p plan) string {
	text := fmt.Sprint(p.desired, " ", p.rescale)
	for _, c := range p.status.Conditions {
		text += fmt.Sprintf(" %s=%s/%s", c.Type, c.Status, c.Reason)
	}
	for _, e := range p.events {
		text += " " + e.reason
	}
	return text
}

func TestDecide(t *testing.T) {
	high, low, gone := sample{pods: values(800, 800, 800)}, sample{pods: values(100, 100, 100)},
		sample{err: errors.New("gone")}
	able := " AbleToScale=True/ReadyForNewScale ScalingActive=True/ValidMetricFound " +
		"ScalingLimited=False/DesiredWithinRange"
	for name, tc := range map[string]struct {
		change  func(*observed)
		samples []sample
		want    string
		reason  string
	}{
		"up":   {nil, []sample{high}, "5 true" + able, "cpu resource utilization (percentage of request) above target"},
		"down": {nil, []sample{low}, "1 true" + able, "All metrics below target"},
		"highest of two": {func(o *observed) { o.hpa.Spec.Metrics = append(o.hpa.Spec.Metrics, ofPod(average("100m"))) },
			[]sample{high, {pods: values(200, 200, 200)}}, "6 true" + able, "pods metric qps above target"},
		"one failed, up": {func(o *observed) { o.hpa.Spec.Metrics = append(o.hpa.Spec.Metrics, ofPod(average("1"))) },
			[]sample{high, gone}, "5 true" + able + " FailedGetPodsMetric",
			"cpu resource utilization (percentage of request) above target"},
		"one failed, down": {func(o *observed) { o.hpa.Spec.Metrics = append(o.hpa.Spec.Metrics, ofPod(average("1"))) },
			[]sample{low, gone},
			"7 false AbleToScale=True/SucceededGetScale ScalingActive=False/FailedGetPodsMetric FailedGetPodsMetric " +
				"FailedComputeMetricsReplicas", ""},
		"all failed": {nil, []sample{gone},
			"7 false AbleToScale=True/SucceededGetScale ScalingActive=False/FailedGetResourceMetric FailedGetResourceMetric " +
				"FailedComputeMetricsReplicas", ""},
		"no selector": {func(o *observed) { _, o.selector = parseSelector("") }, nil,
			"7 false AbleToScale=True/SucceededGetScale ScalingActive=False/InvalidSelector SelectorRequired " +
				"FailedComputeMetricsReplicas", ""},
		"bad selector": {func(o *observed) { _, o.selector = parseSelector("a in") }, nil,
			"7 false AbleToScale=True/SucceededGetScale ScalingActive=False/InvalidSelector InvalidSelector " +
				"FailedComputeMetricsReplicas", ""},
		"two autoscalers": {func(o *observed) { o.selector = ambiguous("app=web", []string{"ns/a", "ns/b"}) }, nil,
			"7 false AbleToScale=True/SucceededGetScale ScalingActive=False/AmbiguousSelector AmbiguousSelector " +
				"FailedComputeMetricsReplicas", ""},
		"above maximum": {func(o *observed) { o.current = 21 }, nil, "20 true AbleToScale=True/SucceededGetScale",
			"Current number of replicas above Spec.MaxReplicas"},
		"below minimum": {func(o *observed) { o.current, o.hpa.Spec.MinReplicas = 1, ptr.To[int32](2) }, nil,
			"2 true AbleToScale=True/SucceededGetScale", "Current number of replicas below Spec.MinReplicas"},
		"zero": {func(o *observed) { o.current = 0 }, nil,
			"0 false AbleToScale=True/SucceededGetScale ScalingActive=False/ScalingDisabled", ""},
		"own tolerance": {func(o *observed) {
			o.hpa.Spec.Behavior = &autoscaling.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscaling.HPAScalingRules{Tolerance: quantity("0.7")}}
		}, []sample{high}, "3 false" + able, ""},
		"own tolerance, gate off": {func(o *observed) {
			o.options.IgnoreOwnTolerance = true
			up := policies(autoscaling.MaxChangePolicySelect, 0, policy(autoscaling.PodsScalingPolicy, 9, 15))
			up.Tolerance = quantity("0.7")
			o.hpa.Spec.Behavior = &autoscaling.HorizontalPodAutoscalerBehavior{ScaleUp: up}
		}, []sample{high}, "5 true" + able, "cpu resource utilization (percentage of request) above target"},
	} {
		hpa := scaler(1, 20, nil)
		hpa.Spec.Metrics = []autoscaling.MetricSpec{ofCPU(utilization(50))}
		hpa.Status.DesiredReplicas = 7
		o := observed{hpa: hpa, current: 3, existing: 3, pods: some(3), samples: tc.samples, now: now, options: defaults()}
		// Something was recommended before, so that the current size isn't the first recommendation.
		o.history.recommendations = []recommendation{}
		if tc.change != nil {
			tc.change(&o)
		}
		p := decide(o)
		if got := outcome(p); got != tc.want || p.reason != tc.reason {
			t.Errorf("%s: %s (%s)\nwant %s (%s)", name, got, p.reason, tc.want, tc.reason)
		}
		if p.status.CurrentReplicas != o.current || p.status.DesiredReplicas != p.desired {
			t.Errorf("%s: status %+v", name, p.status)
		}
		if !p.rescale && p.status.LastScaleTime != nil || len(hpa.Status.Conditions) != 0 {
			t.Errorf("%s: scaled without saying so, or changed what it was given", name)
		}
	}
}

func TestScaled(t *testing.T) {
	hpa := scaler(1, 20, nil)
	hpa.Spec.Metrics = []autoscaling.MetricSpec{ofCPU(utilization(50))}
	o := observed{hpa: hpa, current: 3, existing: 3, pods: some(3), samples: []sample{{pods: values(800, 800, 800)}},
		now: now, options: defaults()}
	p := decide(o)
	p.scaled(o)
	want := event{v1.EventTypeNormal, "SuccessfulRescale",
		"New size: 5; reason: cpu resource utilization (percentage of request) above target"}
	if len(p.events) != 1 || p.events[0] != want || !p.status.LastScaleTime.Equal(ptr.To(metav1.NewTime(now))) ||
		condition(p, autoscaling.AbleToScale) != "True SucceededRescale" {
		t.Errorf("%+v", p)
	}
	p = decide(o)
	p.notScaled(o, errors.New("no"))
	want = event{v1.EventTypeWarning, "FailedRescale", want.message + "; error: no"}
	if len(p.events) != 1 || p.events[0] != want || p.status.LastScaleTime != nil || p.status.DesiredReplicas != 0 ||
		condition(p, autoscaling.AbleToScale) != "False FailedUpdateScale" {
		t.Errorf("%+v", p)
	}
}

// A target that the autoscaler scaled to nothing comes back with its metric; one that was scaled so by hand doesn't.
func TestScaleToZero(t *testing.T) {
	hpa := scaler(0, 20, nil)
	hpa.Spec.Metrics = []autoscaling.MetricSpec{ofQueue(average("10"))}
	o := observed{hpa: hpa, current: 2, existing: 2, pods: some(2), samples: []sample{amounts(0)}, now: now,
		options: defaults()}
	o.options.ScaleToZero = true
	o.history.recommendations = []recommendation{}
	p := decide(o)
	if !p.rescale || p.desired != 0 {
		t.Fatal(outcome(p))
	}
	p.scaled(o)
	if got := condition(p, autoscaling.ScaledToZero); got != "True ScaledToZero" {
		t.Fatal(got)
	}
	byHand := o
	byHand.current, byHand.existing, byHand.pods, byHand.samples = 0, 0, nil, []sample{amounts(25000)}
	if p := decide(byHand); p.rescale || condition(p, autoscaling.ScalingActive) != "False ScalingDisabled" {
		t.Error("woken though it wasn't put to sleep:", outcome(p))
	}
	asleep := byHand
	asleep.hpa = hpa.DeepCopy()
	asleep.hpa.Status = p.status
	woken := decide(asleep)
	if !woken.rescale || woken.desired != 3 {
		t.Fatal(outcome(woken))
	}
	woken.scaled(asleep)
	if got := condition(woken, autoscaling.ScaledToZero); got != "False NotScaledToZero" {
		t.Error(got)
	}
	asleep.samples = []sample{amounts(0)}
	if p := decide(asleep); p.rescale {
		t.Error("woken without load:", outcome(p))
	}
	asleep.hpa.Spec.MinReplicas = ptr.To[int32](2)
	if p := decide(asleep); !p.rescale || p.desired != 2 ||
		p.reason != "Current number of replicas below Spec.MinReplicas" {
		t.Error("a new minimum:", outcome(p), p.reason)
	}
	asleep.options.ScaleToZero = false
	if p := decide(asleep); p.rescale || condition(p, autoscaling.ScaledToZero) != "" {
		t.Error("without the gate:", outcome(p))
	}
}
