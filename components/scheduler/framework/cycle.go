package framework

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// filter is a plug-in of a user as a cycle.Filter. Either part may be nil.
type filter struct {
	name   string
	handle *Handle
	pre    fwk.PreFilterPlugin
	plugin fwk.FilterPlugin
}

func (f *filter) Name() string { return f.name }

// Filter runs PreFilter.
func (f *filter) Filter(p *snapshot.Pod, _ *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	t := &test{filter: f, pod: p, state: f.handle.state}
	if f.pre != nil {
		nodes, err := f.handle.lister.List()
		if err != nil {
			return nil, &cycle.Refusal{Err: err}
		}
		result, status := f.pre.PreFilter(f.handle.context(), t.state, p.Obj, nodes)
		if status.IsSkip() {
			t.state.skipFilter = skipping(t.state.skipFilter, f.name)
			return nil, nil
		}
		if r := refusal(status, "PreFilter", f.name); r != nil {
			return nil, r
		}
		if !result.AllNodes() {
			t.only = result.NodeNames.UnsortedList()
		}
		t.extensions = f.pre.PreFilterExtensions()
	}
	if f.plugin == nil && t.only == nil && t.extensions == nil {
		return nil, nil
	}
	return t, nil
}

type test struct {
	*filter
	pod        *snapshot.Pod
	state      *State
	only       []string
	extensions fwk.PreFilterExtensions
}

// Only implements cycle.NodeNarrower.
func (t *test) Only() []string { return t.only }

// Check runs Filter.
func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	if t.plugin == nil {
		return nil
	}
	info := &nodeInfo{node: n, snapshot: t.handle.lister.snapshot}
	return refusal(t.plugin.Filter(t.handle.context(), t.state, t.pod.Obj, info), "Filter", t.name)
}

// Follow implements cycle.PreFilterExtensions. A failure ends the attempt at the next Check.
func (t *test) Follow(p *snapshot.Pod, n *snapshot.Node, sign int) {
	if t.extensions == nil {
		return
	}
	ctx, info := t.handle.context(), &nodeInfo{node: n, snapshot: t.handle.lister.snapshot}
	var status *fwk.Status
	if sign > 0 {
		status = t.extensions.AddPod(ctx, t.state, t.pod.Obj, podInfo{p}, info)
	} else {
		status = t.extensions.RemovePod(ctx, t.state, t.pod.Obj, podInfo{p}, info)
	}
	if !status.IsSuccess() {
		t.handle.logger().Error(status.AsError(), "PreFilterExtensions failed", "plugin", t.name)
	}
}

// score is a plug-in of a user as a cycle.FailingScore. pre may be nil.
type score struct {
	name   string
	handle *Handle
	pre    fwk.PreScorePlugin
	plugin fwk.ScorePlugin
	err    error
}

func (f *score) Name() string { return f.name }
func (f *score) Err() error   { return f.err }

// Score runs PreScore, Score and NormalizeScore.
func (f *score) Score(p *snapshot.Pod, s *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool {
	f.err = nil
	ctx, state := f.handle.context(), f.handle.state
	infos := make([]fwk.NodeInfo, len(nodes))
	for i, n := range nodes {
		infos[i] = &nodeInfo{node: n, snapshot: s}
	}
	if f.pre != nil {
		status := f.pre.PreScore(ctx, state, p.Obj, infos)
		if status.IsSkip() {
			state.skipScore = skipping(state.skipScore, f.name)
			return false
		}
		if !status.IsSuccess() {
			return f.fail("PreScore", failure(status))
		}
	}
	if f.plugin == nil {
		return false
	}
	list := make(fwk.NodeScoreList, len(nodes))
	for i := range nodes {
		value, status := f.plugin.Score(ctx, state, p.Obj, infos[i])
		if !status.IsSuccess() {
			return f.fail("Score", failure(status))
		}
		list[i] = fwk.NodeScore{Name: nodes[i].Name, Score: value}
	}
	if extensions := f.plugin.ScoreExtensions(); extensions != nil {
		if status := extensions.NormalizeScore(ctx, state, p.Obj, list); !status.IsSuccess() {
			return f.fail("NormalizeScore", failure(status))
		}
	}
	for i := range list {
		if list[i].Score < fwk.MinScore || list[i].Score > fwk.MaxScore {
			f.err = fmt.Errorf("plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
				f.name, list[i].Score, fwk.MinScore, fwk.MaxScore)
			return false
		}
		scores[i] = list[i].Score
	}
	return true
}

func (f *score) fail(point string, err error) bool {
	f.err = fmt.Errorf("running %s plugin %q: %w", point, f.name, err)
	return false
}

// postFilter is a plug-in of a user as a cycle.PostFilter.
type postFilter struct {
	name   string
	handle *Handle
	plugin fwk.PostFilterPlugin
}

func (f *postFilter) Name() string { return f.name }

// PostFilter returns the node that the plug-in nominates. Victims it evicts itself.
func (f *postFilter) PostFilter(a *cycle.Attempt, refused []cycle.Refused, _ string) cycle.PostFilterResult {
	of := &statuses{byNode: map[string]*fwk.Status{}, absent: fwk.NewStatus(fwk.UnschedulableAndUnresolvable)}
	for i := range refused {
		of.byNode[refused[i].Node] = status(refused[i].Refusal, refused[i].Plugin)
	}
	result, status := f.plugin.PostFilter(f.handle.context(), f.handle.state, a.Pod.Obj, of)
	out := cycle.PostFilterResult{Message: status.Message(), KeepNomination: true}
	if result != nil && result.Mode() == fwk.ModeOverride {
		out.KeepNomination = false
		out.Node = result.NominatedNodeName
	}
	out.Last = status.Code() == fwk.UnschedulableAndUnresolvable || status.IsError() || status.IsSuccess()
	return out
}
