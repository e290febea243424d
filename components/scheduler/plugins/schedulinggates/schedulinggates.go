// Package schedulinggates keeps pods with spec.schedulingGates from being tried (KEP-3521).
package schedulinggates

import (
	"fmt"

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

// Gated names the gates that the pod waits for.
func (Plugin) Gated(p *snapshot.Pod) string {
	if len(p.Obj.Spec.SchedulingGates) == 0 {
		return ""
	}
	var names []string
	for _, gate := range p.Obj.Spec.SchedulingGates {
		names = append(names, gate.Name)
	}
	return fmt.Sprintf("waiting for scheduling gates: %v", names)
}
