// Package plugins is the list of the scheduler's plug-ins.
package plugins

import (
	"fmt"

	"quintet.dev/quintet/components/scheduler/plugins/defaultpreemption"
	"quintet.dev/quintet/components/scheduler/plugins/dynamicresources"
	"quintet.dev/quintet/components/scheduler/plugins/imagelocality"
	"quintet.dev/quintet/components/scheduler/plugins/interpodaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/nodeaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/nodename"
	"quintet.dev/quintet/components/scheduler/plugins/nodeports"
	"quintet.dev/quintet/components/scheduler/plugins/noderesources"
	"quintet.dev/quintet/components/scheduler/plugins/nodeunschedulable"
	"quintet.dev/quintet/components/scheduler/plugins/podtopologyspread"
	"quintet.dev/quintet/components/scheduler/plugins/schedulinggates"
	"quintet.dev/quintet/components/scheduler/plugins/tainttoleration"
	"quintet.dev/quintet/components/scheduler/queue"
)

// Plugin is what every plug-in has; what else it does, its further methods tell (cycle.Filter, cycle.Score,
// cycle.PostFilter, Gate).
type Plugin interface {
	Name() string
	Hints() []queue.Hint
}

// Entry is one plug-in.
type Entry struct {
	Name string
	// Weight of its score by default; 0 for plug-ins that give none.
	Weight int64
	// New makes it from its arguments, as they are in a KubeSchedulerConfiguration; nil takes the defaults.
	New func(args any) (Plugin, error)
}

// Default lists the plug-ins in the order in which they are asked, with upstream's weights.
func Default() []Entry {
	return []Entry{
		{schedulinggates.Name, 0, plain(schedulinggates.Plugin{})},
		{nodeunschedulable.Name, 0, plain(nodeunschedulable.Plugin{})},
		{nodename.Name, 0, plain(nodename.Plugin{})},
		{tainttoleration.Name, 3, plain(tainttoleration.Plugin{})},
		{nodeaffinity.Name, 2, newNodeAffinity},
		{nodeports.Name, 0, plain(nodeports.Plugin{})},
		{noderesources.FitName, 1, newFit},
		{dynamicresources.Name, 0, plain(dynamicresources.Plugin{})},
		{podtopologyspread.Name, 2, newSpread},
		{interpodaffinity.Name, 2, newInterPodAffinity},
		{defaultpreemption.Name, 0, newPreemption},
		{noderesources.BalancedName, 1, newBalanced},
		{imagelocality.Name, 1, plain(imagelocality.Plugin{})},
	}
}

func plain(p Plugin) func(any) (Plugin, error) {
	return func(args any) (Plugin, error) {
		if args != nil {
			return nil, fmt.Errorf("plug-in %s takes no arguments", p.Name())
		}
		return p, nil
	}
}
