// Package plugins is the list of the scheduler's plug-ins.
package plugins

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

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
	// Whole are such arguments with the defaults of what they leave open; nil for a plug-in that takes none.
	Whole func(args any) runtime.Object
}

// Default lists the plug-ins in the order in which they are asked, with upstream's weights.
func Default() []Entry {
	return []Entry{
		plain(schedulinggates.Plugin{}, 0),
		plain(nodeunschedulable.Plugin{}, 0),
		plain(nodename.Plugin{}, 0),
		plain(tainttoleration.Plugin{}, 3),
		taking(nodeaffinity.Name, 2, wholeNodeAffinity, newNodeAffinity),
		plain(nodeports.Plugin{}, 0),
		taking(noderesources.FitName, 1, wholeFit, newFit),
		plain(dynamicresources.Plugin{}, 0),
		taking(podtopologyspread.Name, 2, wholeSpread, newSpread),
		taking(interpodaffinity.Name, 2, wholeInterPodAffinity, newInterPodAffinity),
		taking(defaultpreemption.Name, 0, wholePreemption, newPreemption),
		taking(noderesources.BalancedName, 1, wholeBalanced, newBalanced),
		plain(imagelocality.Plugin{}, 1),
	}
}

// plain is the entry of a plug-in that takes no arguments.
func plain(p Plugin, weight int64) Entry {
	return Entry{Name: p.Name(), Weight: weight, New: func(args any) (Plugin, error) {
		if args != nil {
			return nil, fmt.Errorf("plug-in %s takes no arguments", p.Name())
		}
		return p, nil
	}}
}

// taking is the entry of a plug-in that takes arguments. complete sets their defaults.
func taking[A any, P interface {
	*A
	runtime.Object
}](name string, weight int64, complete func(P), build func(P) (Plugin, error)) Entry {
	whole := func(args any) P {
		out := P(new(A))
		if args != nil {
			out = args.(P).DeepCopyObject().(P)
		}
		complete(out)
		return out
	}
	return Entry{
		Name: name, Weight: weight,
		New:   func(args any) (Plugin, error) { return build(whole(args)) },
		Whole: func(args any) runtime.Object { return whole(args) },
	}
}
