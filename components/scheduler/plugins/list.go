// Package plugins is the list of the scheduler's plug-ins.
package plugins

import (
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/plugins/defaultpreemption"
	"quintet.dev/quintet/components/scheduler/plugins/dynamicresources"
	"quintet.dev/quintet/components/scheduler/plugins/imagelocality"
	"quintet.dev/quintet/components/scheduler/plugins/interpodaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/nodeaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/nodedeclaredfeatures"
	"quintet.dev/quintet/components/scheduler/plugins/nodename"
	"quintet.dev/quintet/components/scheduler/plugins/nodeports"
	"quintet.dev/quintet/components/scheduler/plugins/noderesources"
	"quintet.dev/quintet/components/scheduler/plugins/nodeunschedulable"
	"quintet.dev/quintet/components/scheduler/plugins/nodevolumelimits"
	"quintet.dev/quintet/components/scheduler/plugins/podtopologyspread"
	"quintet.dev/quintet/components/scheduler/plugins/prioritysort"
	"quintet.dev/quintet/components/scheduler/plugins/schedulinggates"
	"quintet.dev/quintet/components/scheduler/plugins/tainttoleration"
	"quintet.dev/quintet/components/scheduler/plugins/volumebinding"
	"quintet.dev/quintet/components/scheduler/plugins/volumerestrictions"
	"quintet.dev/quintet/components/scheduler/plugins/volumezone"
	"quintet.dev/quintet/components/scheduler/queue"
)

// Plugin is what every plug-in has; what else it does, its further methods tell (cycle.Filter, cycle.Score,
// cycle.PostFilter, the interfaces of commit, those of the queue).
type Plugin interface {
	Name() string
	Hints() []queue.Hint
}

// Dependencies are what plug-ins act with.
type Dependencies struct {
	Client kubernetes.Interface
	Clock  clock.PassiveClock
	// Devices are the features of dynamic resource allocation that are on.
	Devices dynamicresources.Features
	// ResourceClaim returns a claim as its informer knows it; ClaimCreated is told of every attempt to create one.
	ResourceClaim func(namespace, name string) (*resourcev1.ResourceClaim, error)
	ClaimCreated  func(error)
	// VolumesFailed is told the stage at which a pod's volumes could not be bound, and may be nil.
	VolumesFailed func(stage string)
	// DevicesAwaited is told how waits for binding conditions ended, by the scheduler's name and the driver.
	DevicesAwaited func(profile, driver string, outcome dynamicresources.Outcome, took time.Duration)
	// IgnoredResources are left to extenders.
	IgnoredResources []string
}

// Entry is one plug-in.
type Entry struct {
	Name string
	// Weight of its score by default; 0 for plug-ins that give none.
	Weight int64
	// New makes it from its arguments, as they are in a KubeSchedulerConfiguration; nil takes the defaults.
	New func(args any, d Dependencies) (Plugin, error)
	// Whole are such arguments with the defaults of what they leave open; nil for a plug-in that takes none.
	Whole func(args any) runtime.Object
}

// minor is the release of Kubernetes whose behaviour the scheduler has.
const minor = 36

// Default lists the plug-ins in the order in which they are asked, with upstream's weights.
func Default() []Entry {
	return []Entry{
		plain(schedulinggates.Plugin{}, 0),
		plain(prioritysort.Plugin{}, 0),
		plain(nodeunschedulable.Plugin{}, 0),
		plain(nodename.Plugin{}, 0),
		plain(tainttoleration.Plugin{}, 3),
		taking(nodeaffinity.Name, 2, wholeNodeAffinity, newNodeAffinity),
		plain(nodeports.Plugin{}, 0),
		weighing(1, acting(noderesources.FitName, wholeFit, newFit)),
		plain(volumerestrictions.Plugin{}, 0),
		plain(nodevolumelimits.Plugin{}, 0),
		acting(volumebinding.Name, wholeVolumeBinding, newVolumeBinding),
		plain(volumezone.Plugin{}, 0),
		taking(podtopologyspread.Name, 2, wholeSpread, newSpread),
		taking(interpodaffinity.Name, 2, wholeInterPodAffinity, newInterPodAffinity),
		weighing(2, acting(dynamicresources.Name, wholeDynamicResources, newDynamicResources)),
		taking(defaultpreemption.Name, 0, wholePreemption, newPreemption),
		taking(noderesources.BalancedName, 1, wholeBalanced, newBalanced),
		plain(imagelocality.Plugin{}, 1),
		{Name: commit.BinderName, New: func(args any, d Dependencies) (Plugin, error) {
			return &commit.DefaultBinder{Client: d.Client}, noArguments(commit.BinderName, args)
		}},
		plain(&nodedeclaredfeatures.Plugin{Version: version.MajorMinor(1, minor)}, 0),
	}
}

// plain is the entry of a plug-in that takes no arguments.
func plain(p Plugin, weight int64) Entry {
	return Entry{Name: p.Name(), Weight: weight, New: func(args any, _ Dependencies) (Plugin, error) {
		return p, noArguments(p.Name(), args)
	}}
}

func noArguments(name string, args any) error {
	if args != nil {
		return fmt.Errorf("plug-in %s takes no arguments", name)
	}
	return nil
}

// taking is the entry of a plug-in that takes arguments. complete sets their defaults.
func taking[A any, P interface {
	*A
	runtime.Object
}](name string, weight int64, complete func(P), build func(P) (Plugin, error)) Entry {
	return weighing(weight, acting(name, complete, func(args P, _ Dependencies) (Plugin, error) { return build(args) }))
}

// weighing sets the weight of an entry.
func weighing(weight int64, e Entry) Entry {
	e.Weight = weight
	return e
}

// acting is the entry of a plug-in that takes arguments and acts outside the cycle.
func acting[A any, P interface {
	*A
	runtime.Object
}](name string, complete func(P), build func(P, Dependencies) (Plugin, error)) Entry {
	whole := func(args any) (P, error) {
		out := P(new(A))
		if args != nil {
			given, ok := args.(P)
			if !ok {
				return nil, fmt.Errorf("arguments of type %T, not %T", args, out)
			}
			out = given.DeepCopyObject().(P)
		}
		complete(out)
		return out, nil
	}
	return Entry{
		Name: name,
		New: func(args any, d Dependencies) (Plugin, error) {
			whole, err := whole(args)
			if err != nil {
				return nil, err
			}
			return build(whole, d)
		},
		Whole: func(args any) runtime.Object {
			whole, err := whole(args)
			if err != nil {
				return nil
			}
			return whole
		},
	}
}
