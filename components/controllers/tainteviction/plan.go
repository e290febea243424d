package tainteviction

import (
	"time"

	v1 "k8s.io/api/core/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// deadline tells when a pod with tolerations must leave a node with taints
// (https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions): at once if
// one of the NoExecute taints is not tolerated, when the shortest toleration ends, or never. since is when a taint
// came into effect.
func deadline(taints []v1.Taint, tolerations []v1.Toleration,
	since func(v1.Taint) time.Time) (at time.Time, leave bool) {
	for i := range taints {
		taint := &taints[i]
		if taint.Effect != v1.TaintEffectNoExecute {
			continue
		}
		seconds, tolerated := minTolerationSeconds(tolerations, taint)
		due := since(*taint)
		switch {
		case !tolerated:
		case seconds == nil:
			continue
		default:
			due = due.Add(time.Duration(max(*seconds, 0)) * time.Second)
		}
		if !leave || due.Before(at) {
			at, leave = due, true
		}
	}
	return at, leave
}

// minTolerationSeconds returns the shortest tolerationSeconds among the tolerations of taint; nil if none is limited.
func minTolerationSeconds(tolerations []v1.Toleration, taint *v1.Taint) (seconds *int64, tolerated bool) {
	for i := range tolerations {
		if !corehelpers.TolerationsTolerateTaint(klog.Background(), tolerations[i:i+1], taint, true) {
			continue
		}
		tolerated = true
		if limit := tolerations[i].TolerationSeconds; limit != nil && (seconds == nil || *limit < *seconds) {
			seconds = limit
		}
	}
	return seconds, tolerated
}
