// Package nodename rejects nodes other than spec.nodeName.
package nodename

import (
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "NodeName"

var refusal = &cycle.Refusal{Reasons: []string{"node(s) didn't match the requested node name"}, Unresolvable: true}

// Plugin is a cycle.Filter.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints say that only a new node helps.
func (Plugin) Hints() []queue.Hint { return []queue.Hint{{Kinds: queue.NodeAdded}} }

// Filter tests for the name.
func (Plugin) Filter(p *snapshot.Pod, _ *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	if p.Obj.Spec.NodeName == "" {
		return nil, nil
	}
	return test(p.Obj.Spec.NodeName), nil
}

type test string

func (t test) Check(n *snapshot.Node) *cycle.Refusal {
	if n.Name != string(t) {
		return refusal
	}
	return nil
}
