package framework

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/commit"
)

// State is a fwk.CycleState: what plug-ins keep of one attempt to schedule a pod. Its data is safe for concurrent use.
type State struct {
	data    sync.Map // fwk.StateData by fwk.StateKey
	assumed *v1.Pod  // the pod with its node, for the plug-ins of the commit

	skipFilter, skipScore, skipPreBind, parallelPreBind sets.Set[string]
	group                                               fwk.PodGroupCycleState
}

var _ fwk.CycleState = (*State)(nil)

// Read returns what a plug-in has written.
func (s *State) Read(key fwk.StateKey) (fwk.StateData, error) {
	if value, ok := s.data.Load(key); ok {
		return value.(fwk.StateData), nil
	}
	return nil, fwk.ErrNotFound
}

// Write keeps a value.
func (s *State) Write(key fwk.StateKey, value fwk.StateData) { s.data.Store(key, value) }

// Delete forgets a value.
func (s *State) Delete(key fwk.StateKey) { s.data.Delete(key) }

// Clone copies the state and, by their own Clone, its values.
func (s *State) Clone() fwk.CycleState {
	c := &State{skipFilter: s.skipFilter, skipScore: s.skipScore, skipPreBind: s.skipPreBind,
		parallelPreBind: s.parallelPreBind, group: s.group}
	s.data.Range(func(key, value any) bool {
		c.data.Store(key, value.(fwk.StateData).Clone())
		return true
	})
	return c
}

// ShouldRecordPluginMetrics is false: durations of single plug-ins are not measured.
func (*State) ShouldRecordPluginMetrics() bool { return false }

// ShouldSkipAllPostFilterPlugins is false: pods are scheduled one by one.
func (*State) ShouldSkipAllPostFilterPlugins() bool { return false }

// GetSkipFilterPlugins names the plug-ins whose PreFilter returned Skip.
func (s *State) GetSkipFilterPlugins() sets.Set[string] { return s.skipFilter }

// SetSkipFilterPlugins sets them.
func (s *State) SetSkipFilterPlugins(names sets.Set[string]) { s.skipFilter = names }

// GetSkipScorePlugins names the plug-ins whose PreScore returned Skip.
func (s *State) GetSkipScorePlugins() sets.Set[string] { return s.skipScore }

// SetSkipScorePlugins sets them.
func (s *State) SetSkipScorePlugins(names sets.Set[string]) { s.skipScore = names }

// GetSkipPreBindPlugins names the plug-ins whose PreBindPreFlight returned Skip.
func (s *State) GetSkipPreBindPlugins() sets.Set[string] { return s.skipPreBind }

// SetSkipPreBindPlugins sets them.
func (s *State) SetSkipPreBindPlugins(names sets.Set[string]) { s.skipPreBind = names }

// GetParallelPreBindPlugins names the plug-ins that may pre-bind beside others.
func (s *State) GetParallelPreBindPlugins() sets.Set[string] { return s.parallelPreBind }

// SetParallelPreBindPlugins sets them.
func (s *State) SetParallelPreBindPlugins(names sets.Set[string]) { s.parallelPreBind = names }

// IsPodGroupSchedulingCycle is false: pods are scheduled one by one.
func (s *State) IsPodGroupSchedulingCycle() bool { return s.group != nil }

// GetPodGroupSchedulingCycle returns what was set.
func (s *State) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState { return s.group }

// SetPodGroupSchedulingCycle sets it.
func (s *State) SetPodGroupSchedulingCycle(group fwk.PodGroupCycleState) { s.group = group }

func skipping(names sets.Set[string], name string) sets.Set[string] {
	if names == nil {
		names = sets.New[string]()
	}
	return names.Insert(name)
}

// stateOf returns the state of a placement and its pod as it will be.
func stateOf(p *commit.Placement) (*State, *v1.Pod) {
	s, ok := p.State.(*State)
	if !ok {
		s = &State{}
		p.State = s
	}
	if s.assumed == nil || s.assumed.Spec.NodeName != p.Node {
		assumed := *p.Pod.Obj
		assumed.Spec.NodeName = p.Node
		s.assumed = &assumed
	}
	return s, s.assumed
}
