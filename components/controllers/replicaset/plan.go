package replicaset

import (
	"slices"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
)

// burst is how many pods one reconciliation creates or deletes at most.
const burst = 500

// observed is all that a decision depends on.
type observed struct {
	set *apps.ReplicaSet
	// pods are those the set controls, ended and terminating ones too.
	pods []*v1.Pod
	// related are the active pods of all sets with the same owner, by which crowded nodes are known.
	related func() []*v1.Pod
	// expectationsMet is false while earlier writes have not been observed: then the pods can't be counted on.
	expectationsMet bool
	now             time.Time
}

// plan is what to do about it.
type plan struct {
	create int
	delete []*v1.Pod
	// ages are those of the ready pods among them, as ratios to that of the youngest.
	ages []float64
	// status leaves out the outcome of create and delete: see withFailure.
	status apps.ReplicaSetStatus
	// again is when a ready pod becomes available; 0 if no event but the clock's can be missed.
	again time.Duration
}

func decide(o observed) plan {
	var p plan
	active := pods.Filter(o.pods, pods.Active)
	p.status, p.again = status(o, active)
	if !o.expectationsMet || o.set.DeletionTimestamp != nil {
		return p
	}
	surplus := len(active) - int(ptr.Deref(o.set.Spec.Replicas, 1))
	switch {
	case surplus < 0:
		p.create = min(-surplus, burst)
	case surplus > 0:
		p.delete = choose(active, o.related, min(surplus, burst), o.now)
		p.ages = ages(active, p.delete, o.now)
	}
	return p
}

func choose(active []*v1.Pod, related func() []*v1.Pod, count int, now time.Time) []*v1.Pod {
	if count >= len(active) {
		return active
	}
	podsPerNode := map[string]int{}
	for _, pod := range related() {
		podsPerNode[pod.Spec.NodeName]++
	}
	return rank(active, podsPerNode, now)[:count]
}

func status(o observed, active []*v1.Pod) (apps.ReplicaSetStatus, time.Duration) {
	next := apps.ReplicaSetStatus{
		Replicas:            int32(len(active)),
		TerminatingReplicas: ptr.To(int32(len(pods.Filter(o.pods, pods.Terminating)))),
		ObservedGeneration:  o.set.Generation,
		Conditions:          slices.Clone(o.set.Status.Conditions),
	}
	var again time.Duration
	template := labels.Set(o.set.Spec.Template.Labels).AsSelectorPreValidated()
	for _, pod := range active {
		if template.Matches(labels.Set(pod.Labels)) {
			next.FullyLabeledReplicas++
		}
		if !pods.Ready(pod) {
			continue
		}
		next.ReadyReplicas++
		available, wait := pods.Available(pod, o.set.Spec.MinReadySeconds, o.now)
		if available {
			next.AvailableReplicas++
		} else if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return next, again
}

// withFailure records in the ReplicaFailure condition what became of the plan: creating says which half failed.
func withFailure(s apps.ReplicaSetStatus, failure error, creating bool, now time.Time) apps.ReplicaSetStatus {
	at := slices.IndexFunc(s.Conditions,
		func(c apps.ReplicaSetCondition) bool { return c.Type == apps.ReplicaSetReplicaFailure })
	switch {
	case failure == nil && at >= 0:
		s.Conditions = slices.Delete(slices.Clone(s.Conditions), at, at+1)
	case failure != nil && at < 0:
		reason := "FailedDelete"
		if creating {
			reason = "FailedCreate"
		}
		s.Conditions = append(slices.Clone(s.Conditions), apps.ReplicaSetCondition{
			Type:               apps.ReplicaSetReplicaFailure,
			Status:             v1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now),
			Reason:             reason,
			Message:            failure.Error(),
		})
	}
	return s
}
