package pods

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/status"
)

// Texts of a preemption by the node, as upstream's kubelet has them.
const (
	preempting       = "Preempting"
	preemptMessage   = "Preempted in order to admit critical pod"
	preemptCondition = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// preemptRetry is when a critical pod tries again that other pods have to end for.
const preemptRetry = time.Second

// preempt ends pods so that a critical pod fits, which no scheduler placed, and reports whether that helps.
func (w *worker) preempt(node *v1.Node, why *rejection) bool {
	s := &w.state
	if !why.resources || !spec.Critical(s.pod) {
		return false
	}
	victims := victims(s.pod, node, w.m.admission.others(w.uid))
	for _, victim := range victims {
		w.m.Metrics.Preempted(strings.TrimPrefix(why.reason, "OutOf"))
		w.m.post(victim.UID, func(e *events) {
			e.evict = &rejection{reason: preempting, message: preemptMessage, disrupted: true,
				condition: preemptCondition}
		})
	}
	if len(victims) > 0 {
		s.wakeAt = w.Clock.Now().Add(preemptRetry)
	}
	return len(victims) > 0
}

// needs are thousandths of each resource.
type needs map[v1.ResourceName]int64

func wanted(pod *v1.Pod) needs {
	out := needs{v1.ResourcePods: 1000}
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		out[name] = quantity.MilliValue()
	}
	return out
}

// less is what is missing after pods end.
func (a needs) less(pods []*v1.Pod) needs {
	left := maps.Clone(a)
	for _, pod := range pods {
		for name, amount := range wanted(pod) {
			left[name] -= amount
		}
	}
	maps.DeleteFunc(left, func(_ v1.ResourceName, amount int64) bool { return amount <= 0 })
	return left
}

// missing is what a pod needs beyond what the others leave of the node.
func missing(pod *v1.Pod, node *v1.Node, others []*v1.Pod) needs {
	out := wanted(pod)
	for _, other := range others {
		for name, amount := range wanted(other) {
			if _, needed := out[name]; needed {
				out[name] += amount
			}
		}
	}
	for name := range out {
		if capacity, known := node.Status.Allocatable[name]; known {
			out[name] -= capacity.MilliValue()
		} else {
			delete(out, name) // it was no cause of the refusal, or nothing helps
		}
	}
	return out.less(nil)
}

// victims chooses the pods that end for a critical one: as few guaranteed ones as possible, then burstable ones. There
// are none if ending all would not help.
func victims(pod *v1.Pod, node *v1.Node, others []*v1.Pod) []*v1.Pod {
	classes := map[v1.PodQOSClass][]*v1.Pod{}
	var all []*v1.Pod
	for _, other := range others {
		if !spec.Critical(other) {
			classes[status.QOS(other)] = append(classes[status.QOS(other)], other)
			all = append(all, other)
		}
	}
	need := missing(pod, node, others)
	if len(need) == 0 || len(need.less(all)) > 0 {
		return nil
	}
	best, burst := classes[v1.PodQOSBestEffort], classes[v1.PodQOSBurstable]
	chosen := nearest(classes[v1.PodQOSGuaranteed], need.less(best).less(burst))
	chosen = append(chosen, nearest(burst, need.less(best).less(chosen))...)
	return append(chosen, nearest(best, need.less(chosen))...)
}

// nearest chooses pods that give back what is needed, each time the one after which least is missing; among equals the
// one that has least.
func nearest(pods []*v1.Pod, need needs) []*v1.Pod {
	var chosen []*v1.Pod
	left := slices.Clone(pods)
	for len(need) > 0 && len(left) > 0 {
		next := slices.MinFunc(left, func(a, b *v1.Pod) int {
			return cmp.Or(cmp.Compare(distance(a, need), distance(b, need)), compareRequests(a, b))
		})
		chosen = append(chosen, next)
		left = slices.DeleteFunc(left, func(p *v1.Pod) bool { return p == next })
		need = need.less([]*v1.Pod{next})
	}
	return chosen
}

// distance is how much of what is needed is missing still after a pod ends: 0 is nothing.
func distance(pod *v1.Pod, need needs) float64 {
	has, sum := wanted(pod), 0.0
	for name, amount := range need {
		if rest := float64(amount-has[name]) / float64(amount); rest > 0 {
			sum += rest * rest
		}
	}
	return sum
}

func compareRequests(a, b *v1.Pod) int {
	hasA, hasB := wanted(a), wanted(b)
	return cmp.Or(cmp.Compare(hasA[v1.ResourceMemory], hasB[v1.ResourceMemory]),
		cmp.Compare(hasA[v1.ResourceCPU], hasB[v1.ResourceCPU]))
}
