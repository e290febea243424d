package horizontalpodautoscaler

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func scaler(least, most int32,
	behavior *autoscaling.HorizontalPodAutoscalerBehavior) *autoscaling.HorizontalPodAutoscaler {
	h := &autoscaling.HorizontalPodAutoscaler{}
	h.Namespace, h.Name = "ns", "web"
	h.Spec = autoscaling.HorizontalPodAutoscalerSpec{MinReplicas: &least, MaxReplicas: most, Behavior: behavior,
		ScaleTargetRef: autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}
	return h
}

func condition(p plan, t autoscaling.HorizontalPodAutoscalerConditionType) string {
	for _, c := range p.status.Conditions {
		if c.Type == t {
			return fmt.Sprint(c.Status, " ", c.Reason)
		}
	}
	return ""
}

func policy(t autoscaling.HPAScalingPolicyType, value, seconds int32) autoscaling.HPAScalingPolicy {
	return autoscaling.HPAScalingPolicy{Type: t, Value: value, PeriodSeconds: seconds}
}

func policies(choice autoscaling.ScalingPolicySelect, window int32,
	all ...autoscaling.HPAScalingPolicy) *autoscaling.HPAScalingRules {
	return &autoscaling.HPAScalingRules{SelectPolicy: &choice, StabilizationWindowSeconds: &window, Policies: all}
}

func TestNormalize(t *testing.T) {
	const pods, percent = autoscaling.PodsScalingPolicy, autoscaling.PercentScalingPolicy
	const most, least, off = autoscaling.MaxChangePolicySelect, autoscaling.MinChangePolicySelect,
		autoscaling.DisabledPolicySelect
	both := func(up, down *autoscaling.HPAScalingRules) *autoscaling.HorizontalPodAutoscalerBehavior {
		return &autoscaling.HorizontalPodAutoscalerBehavior{ScaleUp: up, ScaleDown: down}
	}
	free := policies(most, 0, policy(percent, 1000, 15))
	down := policies(most, 0, policy(percent, 100, 15))
	ago := func(seconds, replicas int32) recommendation {
		return recommendation{now.Add(-time.Duration(seconds) * time.Second), replicas}
	}
	changed := func(seconds, replicas int32) []change {
		return []change{{now.Add(-time.Duration(seconds) * time.Second), replicas}}
	}
	for name, tc := range map[string]struct {
		behavior          *autoscaling.HorizontalPodAutoscalerBehavior
		history           history
		current, proposed int32
		want              string
	}{
		"as proposed":   {nil, history{}, 4, 6, "6 True ReadyForNewScale, False DesiredWithinRange"},
		"twice at most": {nil, history{}, 4, 12, "8 True ReadyForNewScale, True ScaleUpLimit"},
		"four at least": {nil, history{}, 1, 12, "4 True ReadyForNewScale, True ScaleUpLimit"},
		"maximum":       {nil, history{}, 15, 40, "20 True ReadyForNewScale, True TooManyReplicas"},
		"minimum":       {nil, history{}, 4, 1, "2 True ReadyForNewScale, True TooFewReplicas"},
		"recently higher": {nil, history{recommendations: []recommendation{ago(200, 5)}}, 6, 3,
			"5 True ScaleDownStabilized, False DesiredWithinRange"},
		"higher long ago": {nil, history{recommendations: []recommendation{ago(301, 5)}}, 6, 3,
			"3 True ReadyForNewScale, False DesiredWithinRange"},
		"own window": {both(free, policies(most, 60, policy(percent, 100, 15))),
			history{recommendations: []recommendation{ago(50, 5), ago(70, 6)}}, 6, 3,
			"5 True ScaleDownStabilized, False DesiredWithinRange"},
		"flag's window": {both(free, &autoscaling.HPAScalingRules{SelectPolicy: ptr.To(most), Policies: down.Policies}),
			history{recommendations: []recommendation{ago(299, 5)}}, 6, 3,
			"5 True ScaleDownStabilized, False DesiredWithinRange"},
		"up window": {both(policies(most, 60, policy(percent, 100, 15)), down),
			history{recommendations: []recommendation{ago(30, 5)}}, 4, 8, "5 True ScaleUpStabilized, False DesiredWithinRange"},
		"pods up": {both(policies(most, 0, policy(pods, 2, 60)), down), history{}, 4, 12,
			"6 True ReadyForNewScale, True ScaleUpLimit"},
		"percent up": {both(policies(most, 0, policy(percent, 10, 60)), down), history{}, 4, 12,
			"5 True ReadyForNewScale, True ScaleUpLimit"},
		"best of both": {both(policies(most, 0, policy(pods, 1, 60), policy(percent, 100, 60)), down), history{}, 4, 12,
			"8 True ReadyForNewScale, True ScaleUpLimit"},
		"least of both": {both(policies(least, 0, policy(pods, 1, 60), policy(percent, 100, 60)), down), history{}, 4, 12,
			"5 True ReadyForNewScale, True ScaleUpLimit"},
		"up is off": {both(policies(off, 0, policy(pods, 9, 60)), down), history{}, 4, 12,
			"4 True ReadyForNewScale, True ScaleUpLimit"},
		"grown in period": {both(policies(most, 0, policy(pods, 4, 60)), down), history{ups: changed(30, 3)}, 7, 12,
			"8 True ReadyForNewScale, True ScaleUpLimit"},
		"grown before": {both(policies(most, 0, policy(pods, 4, 60)), down), history{ups: changed(61, 3)}, 7, 12,
			"11 True ReadyForNewScale, True ScaleUpLimit"},
		"grown enough": {both(policies(most, 0, policy(pods, 1, 60)), down), history{ups: changed(30, 3)}, 7, 12,
			"7 True ReadyForNewScale, True ScaleUpLimit"},
		"up to maximum": {both(free, down), history{}, 15, 40, "20 True ReadyForNewScale, True TooManyReplicas"},
		"pods down": {both(free, policies(most, 0, policy(pods, 2, 60))), history{}, 9, 3,
			"7 True ReadyForNewScale, True ScaleDownLimit"},
		"percent down": {both(free, policies(most, 0, policy(percent, 25, 60))), history{}, 9, 3,
			"6 True ReadyForNewScale, True ScaleDownLimit"},
		"fastest down": {both(free, policies(most, 0, policy(pods, 1, 60), policy(percent, 50, 60))), history{}, 8, 3,
			"4 True ReadyForNewScale, True ScaleDownLimit"},
		"slowest down": {both(free, policies(least, 0, policy(pods, 1, 60), policy(percent, 50, 60))), history{}, 8, 3,
			"7 True ReadyForNewScale, True ScaleDownLimit"},
		"down is off": {both(free, policies(off, 0, policy(pods, 9, 60))), history{}, 8, 3,
			"8 True ReadyForNewScale, True ScaleDownLimit"},
		"shrunk in period": {both(free, policies(most, 0, policy(pods, 4, 60))), history{downs: changed(30, 3)}, 9, 3,
			"8 True ReadyForNewScale, True ScaleDownLimit"},
		"down to minimum":  {both(free, down), history{}, 9, 1, "2 True ReadyForNewScale, True TooFewReplicas"},
		"no change at all": {both(free, down), history{}, 9, 9, "9 True ReadyForNewScale, False DesiredWithinRange"},
		"lower, own window": {both(free, down), history{recommendations: []recommendation{ago(1, 20)}}, 9, 3,
			"3 True ReadyForNewScale, False DesiredWithinRange"},
	} {
		o := observed{hpa: scaler(2, 20, tc.behavior), current: tc.current, now: now, options: defaults()}
		p := plan{history: tc.history}
		desired := p.normalize(o, tc.proposed)
		got := fmt.Sprintf("%d %s, %s", desired, condition(p, autoscaling.AbleToScale),
			condition(p, autoscaling.ScalingLimited))
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if last := p.history.recommendations[len(p.history.recommendations)-1]; last.replicas != tc.proposed {
			t.Errorf("%s: recorded %v, want the proposal as it was", name, last)
		}
	}
}

// Over any series of proposals, the size stays within its bounds, and no step leads further from the size of a minute
// ago than the policies allow.
func TestPoliciesHoldOverTime(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		up, down := 1+random.Int32N(5), 1+random.Int32N(5)
		hpa := scaler(2, 30, &autoscaling.HorizontalPodAutoscalerBehavior{
			ScaleUp:   policies(autoscaling.MaxChangePolicySelect, 0, policy(autoscaling.PodsScalingPolicy, up, 60)),
			ScaleDown: policies(autoscaling.MaxChangePolicySelect, 0, policy(autoscaling.PodsScalingPolicy, down, 60)),
		})
		p, size := plan{}, int32(10)
		var sizes []int32
		for step := range 100 {
			at := now.Add(time.Duration(step) * 15 * time.Second)
			o := observed{hpa: hpa, current: size, now: at, options: defaults()}
			next := p.normalize(o, random.Int32N(60))
			p.history = p.history.scaled(at, size, next, hpa.Spec.Behavior)
			size = next
			sizes = append(sizes, size)
			if size < 2 || size > 30 {
				t.Fatalf("size %d is out of bounds", size)
			}
			if len(p.history.ups) > 5 || len(p.history.downs) > 5 || len(p.history.recommendations) > 100 {
				t.Fatalf("the history grows: %+v", p.history)
			}
			if from := len(sizes) - 5; from >= 0 {
				before, last := sizes[from], sizes[len(sizes)-2]
				if (size > last && size-before > up) || (size < last && before-size > down) {
					t.Fatalf("%v: more than +%d -%d in a minute", sizes[from:], up, down)
				}
			}
		}
	}
}

func TestConditionTimes(t *testing.T) {
	p := plan{}
	p.set(now, autoscaling.AbleToScale, v1.ConditionTrue, "A", "a")
	p.set(now.Add(time.Minute), autoscaling.AbleToScale, v1.ConditionTrue, "B", "b")
	if c := p.status.Conditions[0]; !c.LastTransitionTime.Time.Equal(now) || c.Reason != "B" || c.Message != "b" {
		t.Errorf("the same status: %+v", c)
	}
	p.set(now.Add(time.Minute), autoscaling.AbleToScale, v1.ConditionFalse, "B", "b")
	if c := p.status.Conditions[0]; !c.LastTransitionTime.Time.Equal(now.Add(time.Minute)) {
		t.Errorf("another status: %+v", c)
	}
	if p.unset(autoscaling.AbleToScale); len(p.status.Conditions) != 0 {
		t.Error(p.status.Conditions)
	}
}
