// Package nodeports refuses nodes where a host port of the pod is taken.
package nodeports

import (
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "NodePorts"

var refusal = &cycle.Refusal{Reasons: []string{"node(s) didn't have free ports for the requested pod ports"}}

// Plugin is a cycle.Filter.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints say that a new node helps, and a pod that went and had one of the ports.
func (Plugin) Hints() []queue.Hint {
	return []queue.Hint{
		{Kinds: queue.NodeAdded},
		{Kinds: queue.PodRemoved, Helps: func(p *snapshot.Pod, e queue.Event) bool {
			return e.OldPod != nil && overlap(p.Ports, e.OldPod.Ports)
		}},
	}
}

// Filter tests for free ports.
func (Plugin) Filter(p *snapshot.Pod, _ *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	if len(p.Ports) == 0 {
		return nil, nil
	}
	return test(p.Ports), nil
}

type test []snapshot.Port

func (t test) Check(n *snapshot.Node) *cycle.Refusal {
	if overlap(t, n.Ports) {
		return refusal
	}
	return nil
}

func overlap(a, b []snapshot.Port) bool {
	for _, port := range a {
		for _, other := range b {
			if port.Overlaps(other) {
				return true
			}
		}
	}
	return false
}
