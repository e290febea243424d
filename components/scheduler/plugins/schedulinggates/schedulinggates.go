// Package schedulinggates keeps pods with spec.schedulingGates from being tried (KEP-3521).
package schedulinggates

import (
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "SchedulingGates"

// Plugin keeps gated pods out of the active queue.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints say that a pod is helped by losing gates.
func (Plugin) Hints() []queue.Hint { return []queue.Hint{{Kinds: queue.OwnGates}} }

// Gated tells whether the pod must wait.
func (Plugin) Gated(p *snapshot.Pod) bool { return len(p.Obj.Spec.SchedulingGates) > 0 }
