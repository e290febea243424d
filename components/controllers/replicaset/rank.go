package replicaset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/pods"
)

// rank orders active pods so that those to delete come first, by the documented rules
// (https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#scaling-a-replicaset). podsPerNode tells how
// many related active pods share a node; now is what the ages are compared at.
func rank(active []*v1.Pod, podsPerNode map[string]int, now time.Time) []*v1.Pod {
	ordered := slices.Clone(active)
	slices.SortStableFunc(ordered, func(a, b *v1.Pod) int {
		return cmp.Or(
			falseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
			cmp.Compare(phaseOrder[a.Status.Phase], phaseOrder[b.Status.Phase]),
			falseFirst(pods.Ready(a), pods.Ready(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(podsPerNode[b.Spec.NodeName], podsPerNode[a.Spec.NodeName]),
			youngerFirst(a, b, pods.ReadySince(a), pods.ReadySince(b), now),
			cmp.Compare(restarts(b), restarts(a)),
			youngerFirst(a, b, a.CreationTimestamp, b.CreationTimestamp, now),
		)
	})
	return ordered
}

var phaseOrder = map[v1.PodPhase]int{v1.PodPending: 0, v1.PodUnknown: 1, v1.PodRunning: 2}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// youngerFirst compares ages by their order of magnitude, and picks evenly among those of the same one: deleting
// always the very youngest would empty the node that came last.
func youngerFirst(a, b *v1.Pod, since, other metav1.Time, now time.Time) int {
	if since.Equal(&other) {
		return 0
	}
	if since.IsZero() || other.IsZero() {
		return falseFirst(!since.IsZero(), !other.IsZero())
	}
	return cmp.Or(
		cmp.Compare(magnitude(now.Sub(since.Time)), magnitude(now.Sub(other.Time))),
		cmp.Compare(a.UID, b.UID),
	)
}

func magnitude(age time.Duration) int64 {
	if age <= 0 {
		return -1
	}
	return int64(math.Log2(float64(age)))
}

// deletionCost is 0 where the annotation is missing or wrong: validation keeps wrong ones out.
func deletionCost(pod *v1.Pod) int64 {
	cost, err := strconv.ParseInt(pod.Annotations["controller.kubernetes.io/pod-deletion-cost"], 10, 32)
	if err != nil {
		return 0
	}
	return cost
}

// restarts is the highest count of any container, and of any sidecar.
func restarts(pod *v1.Pod) int32 {
	var most int32
	for _, status := range pod.Status.ContainerStatuses {
		most = max(most, status.RestartCount)
	}
	for i, container := range pod.Spec.InitContainers {
		sidecar := container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
		if sidecar && i < len(pod.Status.InitContainerStatuses) {
			most = max(most, pod.Status.InitContainerStatuses[i].RestartCount)
		}
	}
	return most
}

// ages returns for how long the ready pods among chosen have been so, as ratios to the youngest of all that are ready.
func ages(all, chosen []*v1.Pod, now time.Time) []float64 {
	age := func(pod *v1.Pod) (time.Duration, bool) {
		since := pods.ReadySince(pod)
		return now.Sub(since.Time), pods.Ready(pod) && !since.IsZero()
	}
	var youngest time.Duration
	for _, pod := range all {
		if a, ready := age(pod); ready && a > 0 && (youngest == 0 || a < youngest) {
			youngest = a
		}
	}
	var ratios []float64
	for _, pod := range chosen {
		if a, ready := age(pod); ready && youngest > 0 {
			ratios = append(ratios, float64(a)/float64(youngest))
		}
	}
	return ratios
}
