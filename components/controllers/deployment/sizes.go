package deployment

import (
	"cmp"
	"math"
	"slices"

	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func replicas(d *apps.Deployment) int32 { return ptr.Deref(d.Spec.Replicas, 1) }

func size(set *apps.ReplicaSet) int32 { return ptr.Deref(set.Spec.Replicas, 1) }

// bounds are the numbers of pods a rolling update may add and miss
// (https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment): a share of the
// replicas is rounded up for surge and down for unavailable, and one of the two is never 0.
func bounds(d *apps.Deployment) (surge, unavailable int32) {
	rolling := d.Spec.Strategy.RollingUpdate
	if d.Spec.Strategy.Type == apps.RecreateDeploymentStrategyType {
		return 0, 0
	}
	if rolling == nil { // the API server fills it in
		rolling = &apps.RollingUpdateDeployment{}
	}
	surge = scaled(rolling.MaxSurge, replicas(d), true)
	unavailable = scaled(rolling.MaxUnavailable, replicas(d), false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, replicas(d))
}

// scaled takes what validation lets pass; anything else counts as 0.
func scaled(value *intstr.IntOrString, total int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(value, intstr.FromInt32(0))), int(total), up)
	if err != nil {
		return 0
	}
	return int32(n)
}

func maxSize(d *apps.Deployment) int32 {
	surge, _ := bounds(d)
	return replicas(d) + surge
}

func total(sets []*apps.ReplicaSet) int32 {
	var n int32
	for _, set := range sets {
		n += size(set)
	}
	return n
}

// lasting counts the available pods of set that it keeps: a set that has just been shrunk may still show more.
func lasting(set *apps.ReplicaSet) int32 { return min(set.Status.AvailableReplicas, size(set)) }

// newSetSize is what the new set may grow to now.
func (s *step) newSetSize() int32 {
	want := replicas(s.d)
	if s.d.Spec.Strategy.Type == apps.RecreateDeploymentStrategyType {
		return want
	}
	have := size(s.newSet)
	room := maxSize(s.d) - total(s.sets)
	if room <= 0 {
		return have
	}
	return have + max(min(room, want-have), 0)
}

// shrinkOldSets removes unhealthy old pods first, as they do not serve, then as many healthy ones as maxUnavailable
// allows.
func (s *step) shrinkOldSets() {
	if total(s.oldSets) == 0 {
		return
	}
	_, unavailable := bounds(s.d)
	minAvailable := replicas(s.d) - unavailable
	newMissing := size(s.newSet) - lasting(s.newSet)
	budget := total(s.sets) - minAvailable - newMissing
	if budget <= 0 {
		return
	}
	for _, set := range s.oldSets {
		unhealthy := size(set) - lasting(set)
		if take := min(budget, unhealthy); take > 0 {
			s.scale(set, size(set)-take)
			budget -= take
		}
	}
	spare := -minAvailable
	for _, set := range s.sets {
		spare += lasting(set)
	}
	for _, set := range s.oldSets {
		if take := min(spare, size(set)); take > 0 {
			s.scale(set, size(set)-take)
			spare -= take
		}
	}
}

// resizing tells whether the number of replicas was changed since the sets were sized: then no rollout proceeds until
// they are scaled.
func (s *step) resizing() bool {
	for _, set := range s.sets {
		if size(set) == 0 {
			continue
		}
		if desired, ok := number(set, desiredAnnotation); ok && desired != replicas(s.d) {
			return true
		}
	}
	return false
}

// resize spreads a changed number of replicas over the sets of a rollout in proportion to their sizes, to lower the
// risk (https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#proportional-scaling).
func (s *step) resize() {
	if only := s.onlySet(); only != nil {
		s.scale(only, replicas(s.d))
		return
	}
	if s.newSet != nil && s.saturated() {
		for _, set := range s.oldSets {
			s.scale(set, 0)
		}
		return
	}
	if s.d.Spec.Strategy.Type == apps.RecreateDeploymentStrategyType {
		return
	}
	sets := slices.DeleteFunc(slices.Clone(s.sets), func(set *apps.ReplicaSet) bool { return size(set) == 0 })
	if len(sets) == 0 {
		return
	}
	var allowed int32
	if replicas(s.d) > 0 {
		allowed = maxSize(s.d)
	}
	s.spread(sets, allowed-total(sets))
}

// spread adds toAdd (or takes it, if negative) in proportion; the largest set gets what rounding leaves over.
func (s *step) spread(sets []*apps.ReplicaSet, toAdd int32) {
	slices.SortStableFunc(sets, func(a, b *apps.ReplicaSet) int {
		age := olderFirst(a, b)
		if toAdd > 0 {
			age = -age
		}
		return cmp.Or(cmp.Compare(size(b), size(a)), age)
	})
	sizes := make([]int32, len(sets))
	var added int32
	for i, set := range sets {
		share := s.share(set)
		if toAdd > 0 {
			share = min(share, toAdd-added)
		} else {
			share = max(share, toAdd-added)
		}
		sizes[i] = size(set) + share
		added += share
	}
	sizes[0] = max(sizes[0]+toAdd-added, 0)
	for i, set := range sets {
		s.scale(set, sizes[i])
	}
}

// share is by how much set would change if it kept its part of the whole.
func (s *step) share(set *apps.ReplicaSet) int32 {
	if replicas(s.d) == 0 {
		return -size(set)
	}
	before, ok := number(set, maxAnnotation)
	if !ok || before == 0 {
		before = s.d.Status.Replicas
	}
	if before == 0 {
		return 0
	}
	scaled := float64(size(set)) * float64(maxSize(s.d)) / float64(before)
	return int32(math.Round(scaled)) - size(set)
}

// onlySet is the set to resize when there is no choice: the only one with replicas or, if all are at 0, the newest.
func (s *step) onlySet() *apps.ReplicaSet {
	var active []*apps.ReplicaSet
	for _, set := range s.sets {
		if size(set) > 0 {
			active = append(active, set)
		}
	}
	switch {
	case len(active) == 1:
		return active[0]
	case len(active) > 1:
		return nil
	case s.newSet != nil:
		return s.newSet
	case len(s.oldSets) > 0:
		return s.oldSets[len(s.oldSets)-1]
	}
	return nil
}

// saturated tells whether the new set alone serves all replicas.
func (s *step) saturated() bool {
	desired, ok := number(s.newSet, desiredAnnotation)
	want := replicas(s.d)
	return ok && size(s.newSet) == want && desired == want && s.newSet.Status.AvailableReplicas == want
}
