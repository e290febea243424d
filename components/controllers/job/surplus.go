package job

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/controllers/pods"
)

// surplus are the active pods to remove, count at least: those whose index is beyond completions or another pod's, too,
// and then those that have got least far.
func (s *step) surplus(count int) []*v1.Pod {
	ordered := leastDone(s.active)
	if !isIndexed(s.job) {
		return ordered[:max(count, 0)]
	}
	var unneeded, needed []*v1.Pod
	taken := map[int]bool{}
	for _, pod := range slices.Backward(ordered) { // of those with one index, the one that has got farthest stays
		if i := indexOf(pod, s.job); i < 0 || taken[i] {
			unneeded = append(unneeded, pod)
		} else {
			taken[i] = true
			needed = append(needed, pod)
		}
	}
	slices.Reverse(needed)
	return append(unneeded, needed[:min(max(count-len(unneeded), 0), len(needed))]...)
}

// leastDone puts the pods first that have got least far: those without a node, those that don't run, those that are not
// ready or have been for the shortest time, those that restarted most often, and the youngest.
func leastDone(active []*v1.Pod) []*v1.Pod {
	rank := func(p *v1.Pod) int {
		switch {
		case p.Spec.NodeName == "":
			return 0
		case p.Status.Phase == v1.PodPending:
			return 1
		case p.Status.Phase != v1.PodRunning:
			return 2
		case !pods.Ready(p):
			return 3
		}
		return 4
	}
	return slices.SortedStableFunc(slices.Values(active), func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), pods.ReadySince(b).Compare(pods.ReadySince(a).Time),
			cmp.Compare(mostRestarts(b), mostRestarts(a)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time))
	})
}

// mostRestarts is the highest count of a container.
func mostRestarts(pod *v1.Pod) int32 {
	var most int32
	for _, status := range pod.Status.ContainerStatuses {
		most = max(most, status.RestartCount)
	}
	return most
}
