package framework

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/plugins"
)

// Factory makes a plug-in, as the factories of upstream's scheduler do. args is what a KubeSchedulerConfiguration has
// for the plug-in, a *runtime.Unknown, or nil.
type Factory = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error)

// Off are extension points that a plug-in is not used at, of those that are one for us.
type Off struct{ PreFilter, Filter, PreScore, Score bool }

// Make makes a plug-in and what it does at each extension point.
func (h *Handle) Make(name string, args any, factory Factory, off Off) (plugins.Parts, error) {
	ctx := h.context()
	object, _ := args.(runtime.Object)
	plugin, err := factory(ctx, object, h)
	if err != nil {
		return plugins.Parts{}, err
	}
	if plugin == nil {
		return plugins.Parts{}, fmt.Errorf("its factory returned nothing")
	}
	parts := plugins.Parts{Name: name}
	if parts.Hints, err = h.hints(ctx, plugin); err != nil {
		return plugins.Parts{}, err
	}
	h.use()
	h.addCycle(&parts, name, plugin, off)
	addCommit(&parts, name, plugin)
	if p, ok := plugin.(fwk.PreEnqueuePlugin); ok {
		parts.Gate = &gate{name, h, p}
	}
	if p, ok := plugin.(fwk.QueueSortPlugin); ok {
		parts.QueueSort = &queueSort{name, p}
	}
	return parts, nil
}

func (h *Handle) addCycle(parts *plugins.Parts, name string, plugin fwk.Plugin, off Off) {
	f := &filter{name: name, handle: h}
	if p, ok := plugin.(fwk.PreFilterPlugin); ok && !off.PreFilter {
		f.pre = p
	}
	if p, ok := plugin.(fwk.FilterPlugin); ok && !off.Filter {
		f.plugin = p
	}
	if f.pre != nil || f.plugin != nil {
		parts.Filter = f
	}
	if p, ok := plugin.(fwk.PostFilterPlugin); ok {
		parts.PostFilter = &postFilter{name, h, p}
	}
	s := &score{name: name, handle: h}
	if p, ok := plugin.(fwk.PreScorePlugin); ok && !off.PreScore {
		s.pre = p
	}
	if p, ok := plugin.(fwk.ScorePlugin); ok && !off.Score {
		s.plugin = p
	}
	if s.pre != nil || s.plugin != nil {
		parts.Score = s
	}
}

func addCommit(parts *plugins.Parts, name string, plugin fwk.Plugin) {
	if p, ok := plugin.(fwk.ReservePlugin); ok {
		parts.Reserve = &reserve{name, p}
	}
	if p, ok := plugin.(fwk.PermitPlugin); ok {
		parts.Permit = &permit{name, p}
	}
	if p, ok := plugin.(fwk.PreBindPlugin); ok {
		parts.PreBind = &preBind{name, p}
	}
	if p, ok := plugin.(fwk.BindPlugin); ok {
		parts.Bind = &bind{name, p}
	}
	if p, ok := plugin.(fwk.PostBindPlugin); ok {
		parts.PostBind = &postBind{name, p}
	}
}
