package podgc

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/controllers/nodes"
	"quintet.dev/quintet/components/controllers/pods"
)

// observed is all that a decision depends on.
type observed struct {
	pods  []*v1.Pod
	nodes map[string]*v1.Node
	// missing are the nodes that pods name, that don't exist, and have not for a while.
	missing map[string]bool
	// threshold is how many ended pods may stay; none are collected if it is not positive.
	threshold int
}

type doomed struct {
	pod *v1.Pod
	// reason and message explain the deletion to the owner of a pod that had not ended; empty if it had.
	reason, message string
	fail            bool
	why             string // as metrics tell it
}

// plan returns the pods to delete, each once
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection).
func plan(o observed) []doomed {
	var out []doomed
	var ended []*v1.Pod
	for _, pod := range o.pods {
		node := o.nodes[pod.Spec.NodeName]
		terminating := pod.DeletionTimestamp != nil
		switch {
		case pod.Spec.NodeName != "" && node == nil && o.missing[pod.Spec.NodeName]:
			out = append(out, doomed{pod, "DeletionByPodGC", "PodGC: node no longer exists", true, "orphaned"})
		case terminating && pod.Spec.NodeName == "":
			out = append(out, doomed{pod: pod, fail: true, why: "unscheduled"})
		case terminating && node != nil && outOfService(node):
			out = append(out, doomed{pod: pod, fail: true, why: "out-of-service"})
		case pods.Ended(pod):
			ended = append(ended, pod)
		}
	}
	if excess := len(ended) - o.threshold; o.threshold > 0 && excess > 0 {
		slices.SortStableFunc(ended, evictedAndOldFirst)
		for _, pod := range ended[:excess] {
			out = append(out, doomed{pod: pod, why: "terminated"})
		}
	}
	return out
}

func outOfService(node *v1.Node) bool {
	down := nodes.Ready(node) != v1.ConditionTrue
	return down && slices.ContainsFunc(node.Spec.Taints,
		func(t v1.Taint) bool { return t.Key == v1.TaintNodeOutOfService })
}

func evictedAndOldFirst(a, b *v1.Pod) int {
	order := func(p *v1.Pod) int {
		if p.Status.Phase == v1.PodFailed && p.Status.Reason == "Evicted" {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(order(a), order(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}
