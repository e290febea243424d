package devicetainteviction

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// taint is one of a device; rule is the DeviceTaintRule that it comes from, empty for its driver.
type taint struct {
	resourcev1.DeviceTaint
	rule types.UID
}

// eviction is when pods have to go; the rules are those of the taints that make them.
type eviction struct {
	leave bool
	at    time.Time
	rules sets.Set[types.UID]
}

// add makes the pods go at a time, unless they go earlier.
func (e *eviction) add(at time.Time, rules ...types.UID) {
	if !e.leave || at.Before(e.at) {
		e.at = at
	}
	if e.rules == nil {
		e.rules = sets.New[types.UID]()
	}
	e.leave = true
	for _, rule := range rules {
		if rule != "" {
			e.rules.Insert(rule)
		}
	}
}

// evictionOf tells when the pods of a claim have to go: as soon as a device has a NoExecute taint that the claim does
// not tolerate, or no longer than it tolerates it.
func evictionOf(claim *resourcev1.ResourceClaim, taints func(driver, pool, device string) []taint) eviction {
	var all eviction
	if claim.Status.Allocation == nil {
		return all
	}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		for _, t := range taints(result.Driver, result.Pool, result.Device) {
			if t.Effect != resourcev1.DeviceTaintEffectNoExecute {
				continue
			}
			if at, leave := due(t.DeviceTaint, result.Tolerations); leave {
				all.add(at, t.rule)
			}
		}
	}
	return all
}

// due tells when a taint takes effect on who has tolerations.
func due(t resourcev1.DeviceTaint, tolerations []resourcev1.DeviceToleration) (at time.Time, leave bool) {
	var since time.Time
	if t.TimeAdded != nil {
		since = t.TimeAdded.Time
	}
	tolerated := false
	for _, toleration := range tolerations {
		if !resourceclaim.ToleratesTaint(toleration, t) {
			continue
		}
		if toleration.TolerationSeconds == nil {
			return time.Time{}, false
		}
		until := since.Add(time.Duration(max(*toleration.TolerationSeconds, 0)) * time.Second)
		if !tolerated || until.Before(at) {
			at = until
		}
		tolerated = true
	}
	if !tolerated {
		at = since
	}
	return at, true
}

// matches tells whether a rule taints a device: every criterion must match, and a rule without selector taints none.
func matches(rule *resourcev1beta2.DeviceTaintRule, driver, pool, device string) bool {
	s := rule.Spec.DeviceSelector
	is := func(wanted *string, value string) bool { return wanted == nil || *wanted == value }
	return s != nil && is(s.Driver, driver) && is(s.Pool, pool) && is(s.Device, device)
}

// ruleTaint is the taint of a rule.
func ruleTaint(rule *resourcev1beta2.DeviceTaintRule) taint {
	t := rule.Spec.Taint
	return taint{rule: rule.UID, DeviceTaint: resourcev1.DeviceTaint{Key: t.Key, Value: t.Value,
		Effect: resourcev1.DeviceTaintEffect(t.Effect), TimeAdded: t.TimeAdded}}
}

// evictable tells whether a pod can be evicted at all.
func evictable(pod *v1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Status.Phase != v1.PodSucceeded &&
		pod.Status.Phase != v1.PodFailed
}

// counts are what a rule does.
type counts struct {
	pods, namespaces    int // to be evicted, or that would be
	published, assigned int // devices that the rule selects, in slices and in claims
	evicted             int // pods since the controller started
}

// conditionOf is the condition EvictionInProgress of a rule; its time is left open.
func conditionOf(rule *resourcev1beta2.DeviceTaintRule, n counts) metav1.Condition {
	c := metav1.Condition{Type: resourcev1beta2.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse,
		ObservedGeneration: rule.Generation}
	namespaces := several(n.namespaces, "namespace", "different namespaces")
	switch rule.Spec.Taint.Effect {
	case resourcev1beta2.DeviceTaintEffectNoExecute:
		switch {
		case n.pods > 0:
			c.Reason, c.Status = "PodsPendingEviction", metav1.ConditionTrue
			c.Message = several(n.pods, "pod needs", "pods need") + " to be evicted in " + namespaces + "."
		case n.evicted > 0:
			c.Reason = "Completed"
		default:
			c.Reason = "NotStarted"
		}
	case resourcev1beta2.DeviceTaintEffectNone:
		c.Reason = "NoEffect"
		c.Message = fmt.Sprintf("%s selected. %s selected. %s would be evicted in %s if the effect was NoExecute. "+
			"This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
			several(n.published, "published device", "published devices"),
			several(n.assigned, "allocated device", "allocated devices"), several(n.pods, "pod", "pods"), namespaces)
	default:
		c.Reason, c.Message = "OtherEffect", "Eviction only happens for the NoExecute effect."
	}
	if n.evicted > 0 {
		if c.Message != "" {
			c.Message += " "
		}
		c.Message += several(n.evicted, "pod", "pods") + " evicted since starting the controller."
	}
	return c
}

func several(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
