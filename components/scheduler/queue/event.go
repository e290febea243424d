package queue

import (
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Kind is what happened; kinds are bits, so that a Hint can name several.
type Kind uint32

const (
	NodeAdded Kind = 1 << iota
	NodeRemoved
	NodeAllocatable // a node's allocatable resources changed
	NodeLabels
	NodeTaints // taints or spec.unschedulable changed
	PodAdded   // a pod was placed on a node
	PodRemoved // a pod left its node
	PodLabels  // a placed pod's labels changed
	PodShrunk  // a placed pod asks for less
	NamespaceLabels
	// The pod's own changes.
	OwnLabels
	OwnTolerations
	OwnRequests
	OwnGates
)

var kindNames = []string{
	"NodeAdd", "NodeDelete", "NodeAllocatableUpdate", "NodeLabelUpdate", "NodeTaintUpdate", "AssignedPodAdd", "AssignedPodDelete",
	"AssignedPodLabelUpdate", "AssignedPodScaleDown", "NamespaceLabelUpdate", "PodLabelUpdate", "PodTolerationUpdate",
	"PodScaleDown", "PodSchedulingGatesEliminated",
}

// String names the lowest kind, for metrics and logs.
func (k Kind) String() string {
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			return name
		}
	}
	return "None"
}

// Event is a change in the cluster that may let a pod be scheduled. Kind may have several bits.
type Event struct {
	Kind Kind
	// OldNode and Node are the node before and after; OldNode is nil when it was added, Node when it was removed.
	OldNode, Node *v1.Node
	// OldPod and Pod are the pod before and after; Pod is nil when it was removed, OldPod when it was added.
	OldPod, Pod *snapshot.Pod
}

// Hint says which events can make a plug-in change its mind about a pod that it refused.
type Hint struct {
	Kinds Kind
	// Helps looks closer; nil takes every such event as helpful.
	Helps func(p *snapshot.Pod, e Event) bool
}

// Hints of plug-ins by their name.
type Hints map[string][]Hint

// Helps tells whether e can help a pod refused by any of plugins; a pod refused by none is helped by anything.
func (h Hints) Helps(p *snapshot.Pod, plugins []string, e Event) bool {
	if len(plugins) == 0 {
		return true
	}
	for _, plugin := range plugins {
		for _, hint := range h[plugin] {
			if hint.Kinds&e.Kind != 0 && (hint.Helps == nil || hint.Helps(p, e)) {
				return true
			}
		}
	}
	return false
}
