package eviction

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Withheld is what pods can't have of a node's capacity, because they would be evicted for it at once.
func Withheld(thresholds []Threshold, capacity v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for i := range thresholds {
		t := &thresholds[i]
		if t.Grace > 0 || t.Signal != Memory && t.Signal != NodeFS {
			continue
		}
		if total, ok := capacity[t.Signal.resource()]; ok {
			out[t.Signal.resource()] = *resource.NewQuantity(t.least.of(total.Value()), resource.BinarySI)
		}
	}
	return out
}

// Level is how much of a signal is left, and how much the node has, in bytes or pieces.
type Level struct{ Available, Capacity int64 }

// State is what was seen of the signals so far. Its methods are pure. One goroutine uses it.
type State struct {
	Thresholds []Threshold
	// Transition is how long a condition stays after its cause was seen last.
	Transition time.Duration

	first map[int]time.Time // by index of the thresholds that are crossed: since when
	acted map[int]bool      // thresholds for which pods were to end: they are crossed until more is left
	last  map[v1.NodeConditionType]time.Time
}

// Update takes new levels. It returns the conditions of the node, sorted, and the threshold for which a pod is to end
// now, nil if none is; memory comes first.
func (s *State) Update(levels map[Signal]Level, now time.Time) ([]v1.NodeConditionType, *Threshold) {
	if s.first == nil {
		s.first, s.acted, s.last = map[int]time.Time{}, map[int]bool{}, map[v1.NodeConditionType]time.Time{}
	}
	var act *Threshold
	for i := range s.Thresholds {
		t := &s.Thresholds[i]
		level, known := levels[t.Signal]
		if !known || !s.crossed(i, level) {
			delete(s.first, i)
			delete(s.acted, i)
			continue
		}
		if _, before := s.first[i]; !before {
			s.first[i] = now
		}
		s.last[t.Signal.condition()] = now
		s.acted[i] = now.Sub(s.first[i]) >= t.Grace
		if s.acted[i] && (act == nil || act.Signal != Memory && t.Signal == Memory) {
			act = t
		}
	}
	var conditions []v1.NodeConditionType
	for condition, at := range s.last {
		if at.Equal(now) || now.Sub(at) < s.Transition {
			conditions = append(conditions, condition)
		} else {
			delete(s.last, condition)
		}
	}
	slices.Sort(conditions)
	return conditions, act
}

// crossed tells that too little is left. Where pods were to end for it, MinimumReclaim more has to be left.
func (s *State) crossed(i int, level Level) bool {
	t := &s.Thresholds[i]
	least := t.least.of(level.Capacity)
	if s.acted[i] {
		least += t.reclaim.of(level.Capacity)
	}
	return level.Available < least
}

// relieved tells that enough is left of everything, with what has to be left beyond the thresholds.
func (s *State) relieved(levels map[Signal]Level) bool {
	for i := range s.Thresholds {
		t := &s.Thresholds[i]
		level, known := levels[t.Signal]
		if known && level.Available < t.least.of(level.Capacity)+t.reclaim.of(level.Capacity) {
			return false
		}
	}
	return true
}
