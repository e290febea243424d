package statefulset

import (
	"cmp"
	"slices"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
)

// observed is all that a decision depends on.
type observed struct {
	set  *apps.StatefulSet
	pods []*v1.Pod // those the set controls
	// current and update are the names of the revisions the set comes from and goes to.
	current, update string
	now             time.Time
	maxUnavailable  bool // the set may say how many pods are out of service during an update (MaxUnavailableStatefulSet)
}

// plan is the next step.
type plan struct {
	create    []creation
	delete    []*v1.Pod
	members   []*v1.Pod // pods of ordinals that stay
	condemned []*v1.Pod // pods of ordinals that are too many, gone or not
	status    apps.StatefulSetStatus
	again     time.Duration
}

type creation struct {
	ordinal  int
	revision string
}

type step struct {
	observed
	plan     plan
	members  []*v1.Pod // by ordinal; nil where a pod is missing
	ordered  bool
	finished bool // the step has done what it may
}

func decide(o observed) plan {
	s := &step{observed: o, ordered: o.set.Spec.PodManagementPolicy != apps.ParallelPodManagement}
	s.sort()
	s.plan.status = s.status()
	if o.set.DeletionTimestamp != nil {
		return s.plan
	}
	s.fill()
	s.shrink()
	s.roll()
	return s.plan
}

func (s *step) sort() {
	start, count := first(s.set), replicas(s.set)
	s.members = make([]*v1.Pod, count)
	for _, pod := range s.pods {
		switch n := ordinal(s.set, pod); {
		case n < 0:
		case n >= start && n < start+count:
			s.members[n-start] = pod
			s.plan.members = append(s.plan.members, pod)
		default:
			s.plan.condemned = append(s.plan.condemned, pod)
		}
	}
	slices.SortFunc(s.plan.condemned,
		func(a, b *v1.Pod) int { return cmp.Compare(ordinal(s.set, b), ordinal(s.set, a)) })
}

// serves tells whether the pod is available; if only minReadySeconds has not passed, the set is requeued.
func (s *step) serves(pod *v1.Pod) bool {
	if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != v1.PodRunning {
		return false
	}
	available, wait := pods.Available(pod, s.set.Spec.MinReadySeconds, s.now)
	if wait > 0 && (s.plan.again == 0 || wait < s.plan.again) {
		s.plan.again = wait
	}
	return available
}

// fill makes the missing pods: one after the other, each when its predecessors serve, unless the order doesn't matter.
func (s *step) fill() {
	for i, pod := range s.members {
		switch {
		case pod == nil:
			s.plan.create = append(s.plan.create, creation{first(s.set) + i, s.revisionFor(i)})
		case pod.DeletionTimestamp != nil:
		case pods.Ended(pod):
			s.plan.delete = append(s.plan.delete, pod)
		case s.serves(pod):
			continue
		}
		if s.ordered {
			s.finished = true
			return
		}
	}
}

// revisionFor is the revision of a pod to be made: below the partition the current one. Above it a pod that went
// missing comes back updated, also where a rolling update has not come yet.
func (s *step) revisionFor(i int) string {
	if s.set.Spec.UpdateStrategy.Type != apps.OnDeleteStatefulSetStrategyType && i < s.partition() {
		return s.current
	}
	return s.update
}

// partition is how many of the first members keep the current revision. It counts from the first ordinal.
func (s *step) partition() int {
	rolling := s.set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return 0
	}
	return int(ptr.Deref(rolling.Partition, 0))
}

// shrink deletes pods that are too many, from the highest ordinal down. In order, one that doesn't serve waits for
// those below it that don't either: a set whose pods are broken keeps them.
func (s *step) shrink() {
	if s.finished {
		return
	}
	broken := -1 // the last, so the lowest, of those that don't serve
	for i, pod := range s.plan.condemned {
		if !s.serves(pod) {
			broken = i
		}
	}
	for i, pod := range s.plan.condemned {
		waits := s.ordered && i < broken && !s.serves(pod)
		if pod.DeletionTimestamp == nil && !waits {
			s.plan.delete = append(s.plan.delete, pod)
		}
		if s.ordered {
			s.finished = true
			return
		}
	}
}

// roll deletes pods of other revisions, from the highest ordinal down; fill creates them again.
func (s *step) roll() {
	if s.finished || s.set.Spec.UpdateStrategy.Type == apps.OnDeleteStatefulSetStrategyType {
		return
	}
	missing := 0
	for _, pod := range s.members {
		if !s.serves(pod) {
			missing++
		}
	}
	allowed := s.unavailableLimit()
	for i := len(s.members) - 1; i >= s.partition(); i-- {
		pod := s.members[i]
		if pod == nil || pod.DeletionTimestamp != nil || slices.Contains(s.plan.delete, pod) ||
			pod.Labels[apps.StatefulSetRevisionLabel] == s.update {
			continue
		}
		if s.serves(pod) {
			if missing >= allowed {
				return
			}
			missing++
		}
		s.plan.delete = append(s.plan.delete, pod)
	}
}

func (s *step) unavailableLimit() int {
	if !s.maxUnavailable {
		return 1
	}
	return unavailableLimit(s.set)
}

// unavailableLimit is how many pods may be out of service during an update.
func unavailableLimit(set *apps.StatefulSet) int {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, replicas(set), false)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

func (s *step) status() apps.StatefulSetStatus {
	next := apps.StatefulSetStatus{
		ObservedGeneration: s.set.Generation,
		CurrentRevision:    s.current,
		UpdateRevision:     s.update,
		CollisionCount:     ptr.To(ptr.Deref(s.set.Status.CollisionCount, 0)),
		Conditions:         s.set.Status.Conditions,
	}
	for _, pod := range s.pods {
		if ordinal(s.set, pod) < 0 {
			continue
		}
		next.Replicas++
		if pod.Status.Phase == v1.PodRunning && pods.Ready(pod) {
			next.ReadyReplicas++
			if s.serves(pod) {
				next.AvailableReplicas++
			}
		}
		if pod.DeletionTimestamp != nil {
			continue
		}
		switch pod.Labels[apps.StatefulSetRevisionLabel] {
		case s.update:
			next.UpdatedReplicas++
			if s.current == s.update {
				next.CurrentReplicas++
			}
		case s.current:
			next.CurrentReplicas++
		}
	}
	rolls := s.set.Spec.UpdateStrategy.Type != apps.OnDeleteStatefulSetStrategyType
	if rolls && int(next.Replicas) == replicas(s.set) && next.UpdatedReplicas == next.Replicas &&
		next.ReadyReplicas == next.Replicas {
		next.CurrentReplicas = next.UpdatedReplicas
		next.CurrentRevision = s.update
	}
	return next
}
