package horizontalpodautoscaler

import (
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Without a behavior, a target grows to at most fastGrowth times its size, or to smallGrowth pods if these are more.
const (
	fastGrowth  = 2
	smallGrowth = 4
)

const (
	downStabilized = "recent recommendations were higher than current one, applying the highest recent recommendation"
	upStabilized   = "recent recommendations were lower than current one, applying the lowest recent recommendation"
)

// limit is the number of pods that is allowed, and why it is not another one.
type limit struct {
	replicas        int32
	reason, message string
}

func inRange(replicas int32) limit {
	return limit{replicas, "DesiredWithinRange", "the desired count is within the acceptable range"}
}

func tooFast(replicas int32) limit {
	return limit{replicas, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
}

func tooFastDown(replicas int32) limit {
	return limit{replicas, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}
}

func tooMany(replicas int32) limit {
	return limit{replicas, "TooManyReplicas", "the desired replica count is more than the maximum replica count"}
}

func tooFew(replicas int32) limit {
	return limit{replicas, "TooFewReplicas", "the desired replica count is less than the minimum replica count"}
}

// normalize returns how much of a proposal is to be carried out now, and records it
// (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#configurable-scaling-behavior).
func (p *plan) normalize(o observed, proposed int32) int32 {
	var stable int32
	var reason, message string
	var allowed limit
	if o.hpa.Spec.Behavior == nil {
		stable = highest(p.history.recommendations, proposed, o.now.Add(-o.options.DownscaleStabilization))
		p.history = p.history.recommended(o.now, proposed, o.options.DownscaleStabilization)
		reason, message = "ScaleDownStabilized", downStabilized
		allowed = o.allowed(stable)
	} else {
		rules := o.rules()
		stable = rules.stabilize(p.history.recommendations, o.now, o.current, proposed)
		p.history = p.history.recommended(o.now, proposed, max(rules.upWindow, rules.downWindow))
		reason, message = "ScaleDownStabilized", downStabilized
		if proposed >= o.current {
			reason, message = "ScaleUpStabilized", upStabilized
		}
		allowed = rules.allowed(p.history, o, stable)
	}
	if stable == proposed {
		reason, message = "ReadyForNewScale", "recommended size matches current size"
	}
	p.set(o.now, autoscaling.AbleToScale, v1.ConditionTrue, reason, message)
	limited := v1.ConditionFalse
	if allowed.replicas != stable {
		limited = v1.ConditionTrue
	}
	p.set(o.now, autoscaling.ScalingLimited, limited, allowed.reason, allowed.message)
	return allowed.replicas
}

// highest returns the highest of a proposal and the recommendations since a time.
func highest(recent []recommendation, proposed int32, since time.Time) int32 {
	for _, r := range recent {
		if !r.at.Before(since) {
			proposed = max(proposed, r.replicas)
		}
	}
	return proposed
}

// allowed limits a proposal where the autoscaler has no behavior.
func (o observed) allowed(proposed int32) limit {
	growth := max(min(int64(o.current)*fastGrowth, int64(1<<31-1)), smallGrowth)
	most := tooMany(o.hpa.Spec.MaxReplicas)
	if int64(most.replicas) > growth {
		most = tooFast(int32(growth))
	}
	switch {
	case proposed < o.minimum():
		return tooFew(o.minimum())
	case proposed > most.replicas:
		return most
	}
	return inRange(proposed)
}

// rules are those of an autoscaler that has a behavior.
type rules struct {
	up, down             *autoscaling.HPAScalingRules
	upWindow, downWindow time.Duration
}

func (o observed) rules() rules {
	seconds := func(s int32) time.Duration { return time.Duration(s) * time.Second }
	r := rules{up: o.hpa.Spec.Behavior.ScaleUp, down: o.hpa.Spec.Behavior.ScaleDown,
		downWindow: o.options.DownscaleStabilization.Truncate(time.Second)}
	if r.up == nil {
		r.up = &autoscaling.HPAScalingRules{}
	}
	if r.down == nil {
		r.down = &autoscaling.HPAScalingRules{}
	}
	r.upWindow = seconds(ptr.Deref(r.up.StabilizationWindowSeconds, 0))
	if own := r.down.StabilizationWindowSeconds; own != nil {
		r.downWindow = seconds(*own)
	}
	return r
}

// stabilize keeps a target at its size while recent recommendations disagree about the direction.
func (r rules) stabilize(recent []recommendation, now time.Time, current, proposed int32) int32 {
	lowest, highest := proposed, proposed
	for _, rec := range recent {
		if rec.at.After(now.Add(-r.upWindow)) {
			lowest = min(lowest, rec.replicas)
		}
		if rec.at.After(now.Add(-r.downWindow)) {
			highest = max(highest, rec.replicas)
		}
	}
	return min(max(current, lowest), highest)
}

// allowed limits a stabilized proposal.
func (r rules) allowed(h history, o observed, proposed int32) limit {
	switch {
	case proposed > o.current:
		most := tooMany(o.hpa.Spec.MaxReplicas)
		if rate := max(h.upTo(o.now, o.current, r.up), o.current); rate < most.replicas {
			most = tooFast(rate)
		}
		if proposed > most.replicas {
			return most
		}
	case proposed < o.current:
		least := tooFew(o.minimum())
		if rate := min(h.downTo(o.now, o.current, r.down), o.current); rate > least.replicas {
			least = tooFastDown(rate)
		}
		if proposed < least.replicas {
			return least
		}
	}
	return inRange(proposed)
}
