// Package dynamicresources refuses pods that claim devices (spec.resourceClaims), which this scheduler can't allocate.
package dynamicresources

import (
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "DynamicResources"

var refusal = &cycle.Refusal{Reasons: []string{"resource claims are not supported by this scheduler"}, Unresolvable: true}

// Plugin is a cycle.Filter and cycle.PostFilter.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints are none: claims can't be dropped from a pod.
func (Plugin) Hints() []queue.Hint { return nil }

// Filter refuses all nodes to pods with claims.
func (Plugin) Filter(p *snapshot.Pod, _ *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	if len(p.Obj.Spec.ResourceClaims) > 0 {
		return nil, refusal
	}
	return nil, nil
}

// PostFilter has nothing to free, and says so in the words that upstream 1.36 puts into every refusal.
func (Plugin) PostFilter(*cycle.Attempt, []cycle.Refused, string) cycle.Room {
	return cycle.Room{Message: "no new claims to deallocate"}
}
