package scheduler

import (
	"fmt"
	"reflect"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"quintet.dev/quintet/components/scheduler/plugins"
)

// Points is a set of extension points of the scheduling framework
// (https://kubernetes.io/docs/concepts/scheduling-eviction/scheduling-framework/).
type Points uint16

// The extension points.
const (
	AtQueueSort Points = 1 << iota
	AtPreEnqueue
	AtPreFilter
	AtFilter
	AtPostFilter
	AtPreScore
	AtScore
	AtReserve
	AtPermit
	AtPreBind
	AtBind
	AtPostBind

	everywhere = 1<<iota - 1
)

// pointNames are the names in a KubeSchedulerConfiguration, in the order of the constants.
func pointNames() []string {
	return []string{"queueSort", "preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score", "reserve",
		"permit", "preBind", "bind", "postBind"}
}

// pointSets are the plug-in sets of the extension points, in the order of the constants.
func pointSets(p *configv1.Plugins) []*configv1.PluginSet {
	return []*configv1.PluginSet{&p.QueueSort, &p.PreEnqueue, &p.PreFilter, &p.Filter, &p.PostFilter, &p.PreScore,
		&p.Score, &p.Reserve, &p.Permit, &p.PreBind, &p.Bind, &p.PostBind}
}

// unsupportedSets returns an error for a set that is not of a known extension point: those of groups of pods.
func unsupportedSets(p *configv1.Plugins) error {
	known := append(pointSets(p), &p.MultiPoint)
	value := reflect.ValueOf(p).Elem()
	for i := range value.NumField() {
		set, ok := value.Field(i).Addr().Interface().(*configv1.PluginSet)
		if ok && !slices.Contains(known, set) && len(set.Enabled)+len(set.Disabled) > 0 {
			name := value.Type().Field(i).Name
			return fmt.Errorf("%s: this extension point is not supported", string(name[0]|0x20)+name[1:])
		}
	}
	return nil
}

// does tells at which points a plug-in does something.
func does(p plugins.Parts) Points {
	var points Points
	for point, is := range map[Points]bool{
		AtQueueSort: p.QueueSort != nil, AtPreEnqueue: p.Gate != nil, AtPreFilter | AtFilter: p.Filter != nil,
		AtPostFilter: p.PostFilter != nil, AtPreScore | AtScore: p.Score != nil, AtReserve: p.Reserve != nil,
		AtPermit: p.Permit != nil, AtPreBind: p.PreBind != nil, AtBind: p.Bind != nil, AtPostBind: p.PostBind != nil,
	} {
		if is {
			points |= point
		}
	}
	return points
}
