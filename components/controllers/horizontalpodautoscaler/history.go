package horizontalpodautoscaler

import (
	"math"
	"slices"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
)

// history is what stabilization and scaling policies remember of an autoscaler. It is a value: each method returns a
// new one.
type history struct {
	recommendations []recommendation
	ups, downs      []change
}

// recommendation is how many pods the metrics asked for.
type recommendation struct {
	at       time.Time
	replicas int32
}

// change is by how many pods the target was scaled.
type change struct {
	at       time.Time
	replicas int32 // > 0
}

// started records the size that was found at first as a recommendation, so that a restart of the controller does not
// scale down at once.
func (h history) started(now time.Time, replicas int32) history {
	if h.recommendations == nil {
		h.recommendations = []recommendation{{now, replicas}}
	}
	return h
}

// recommended adds a recommendation and drops those that are older than window.
func (h history) recommended(now time.Time, replicas int32, window time.Duration) history {
	kept := []recommendation{}
	for _, r := range h.recommendations {
		if !r.at.Before(now.Add(-window)) {
			kept = append(kept, r)
		}
	}
	h.recommendations = append(kept, recommendation{now, replicas})
	return h
}

// scaled adds a change, if policies will ask for it, and drops those that they won't ask for any more.
func (h history) scaled(now time.Time, from, to int32, behavior *autoscaling.HorizontalPodAutoscalerBehavior) history {
	switch {
	case behavior == nil || from == to:
	case to > from:
		h.ups = append(since(h.ups, now, longest(behavior)), change{now, to - from})
	default:
		h.downs = append(since(h.downs, now, longest(behavior)), change{now, from - to})
	}
	return h
}

// longest is the longest period of all policies.
func longest(behavior *autoscaling.HorizontalPodAutoscalerBehavior) time.Duration {
	var period int32
	for _, rules := range []*autoscaling.HPAScalingRules{behavior.ScaleUp, behavior.ScaleDown} {
		if rules == nil {
			continue
		}
		for _, p := range rules.Policies {
			period = max(period, p.PeriodSeconds)
		}
	}
	return time.Duration(period) * time.Second
}

func since(changes []change, now time.Time, period time.Duration) []change {
	return slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return !c.at.After(now.Add(-period)) })
}

// within adds up the changes of the last period.
func within(changes []change, now time.Time, period time.Duration) int32 {
	var sum int32
	for _, c := range since(changes, now, period) {
		sum += c.replicas
	}
	return sum
}

// before returns how many pods there were a period ago.
func (h history) before(now time.Time, current int32, period time.Duration) int32 {
	return current - within(h.ups, now, period) + within(h.downs, now, period)
}

// upTo is the greatest number of pods that the policies allow now; less than current is possible.
func (h history) upTo(now time.Time, current int32, rules *autoscaling.HPAScalingRules) int32 {
	selected := choice(rules)
	if selected == autoscaling.DisabledPolicySelect {
		return current
	}
	return pick(rules, selected == autoscaling.MinChangePolicySelect, func(p autoscaling.HPAScalingPolicy) int32 {
		start := h.before(now, current, time.Duration(p.PeriodSeconds)*time.Second)
		if p.Type == autoscaling.PodsScalingPolicy {
			return start + p.Value
		}
		// Rounded up: a small target would never grow otherwise.
		return ceil(float64(start) * (1 + float64(p.Value)/100))
	})
}

// downTo is the least number of pods that the policies allow now; more than current is possible.
func (h history) downTo(now time.Time, current int32, rules *autoscaling.HPAScalingRules) int32 {
	selected := choice(rules)
	if selected == autoscaling.DisabledPolicySelect {
		return current
	}
	return pick(rules, selected != autoscaling.MinChangePolicySelect, func(p autoscaling.HPAScalingPolicy) int32 {
		start := h.before(now, current, time.Duration(p.PeriodSeconds)*time.Second)
		if p.Type == autoscaling.PodsScalingPolicy {
			return start - p.Value
		}
		return int32(float64(start) * (1 - float64(p.Value)/100))
	})
}

func choice(rules *autoscaling.HPAScalingRules) autoscaling.ScalingPolicySelect {
	if rules.SelectPolicy == nil {
		return autoscaling.MaxChangePolicySelect
	}
	return *rules.SelectPolicy
}

// pick returns the least or the greatest of what the policies allow.
func pick(rules *autoscaling.HPAScalingRules, least bool, allowed func(autoscaling.HPAScalingPolicy) int32) int32 {
	result := int32(math.MinInt32)
	if least {
		result = math.MaxInt32
	}
	for _, p := range rules.Policies {
		if least {
			result = min(result, allowed(p))
		} else {
			result = max(result, allowed(p))
		}
	}
	return result
}
