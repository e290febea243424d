package queue

import (
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Kind is what happened; kinds are bits, so that a Hint can name several.
type Kind uint64

const (
	NodeAdded Kind = 1 << iota
	NodeRemoved
	NodeAllocatable // a node's allocatable resources changed
	NodeLabels
	NodeTaints // taints or spec.unschedulable changed
	PodAdded   // a pod was placed on a node
	PodRemoved // a pod left its node
	PodLabels  // a placed pod's labels changed
	PodShrunk  // a bound pod requests less
	NamespaceLabels
	// The pod's own changes.
	OwnLabels
	OwnTolerations
	OwnRequests
	OwnGates
	OwnResourceClaims // status.resourceClaimStatuses changed
	// Changes of storage objects: Event.Old and Event.New hold them.
	VolumeAdded
	VolumeUpdated
	ClaimAdded
	ClaimUpdated
	StorageClassAdded
	StorageClassUpdated
	CSINodeAdded
	CSINodeUpdated
	CSIDriverUpdated
	CapacityAdded
	CapacityUpdated
	AttachmentRemoved
	// Changes of what devices depend on, likewise.
	ResourceClaimAdded
	ResourceClaimUpdated
	DeviceClassAdded
	DeviceClassUpdated
	ResourceSliceAdded
	ResourceSliceUpdated
	// Further changes of nodes, which are told only if a hint asks for them.
	NodeConditions
	NodeAnnotations
	NodeFeatures
	// Watched is a change of an object that only a plug-in of a user watches; Event.Resource names it.
	Watched
)

var kindNames = []string{
	"NodeAdd", "NodeDelete", "NodeAllocatableUpdate", "NodeLabelUpdate", "NodeTaintUpdate", "AssignedPodAdd",
	"AssignedPodDelete",
	"AssignedPodLabelUpdate", "AssignedPodScaleDown", "NamespaceLabelUpdate", "PodLabelUpdate", "PodTolerationUpdate",
	"PodScaleDown", "PodSchedulingGatesEliminated", "PodGeneratedResourceClaimUpdate",
	"PersistentVolumeAdd", "PersistentVolumeUpdate", "PersistentVolumeClaimAdd", "PersistentVolumeClaimUpdate",
	"storage.k8s.io/StorageClassAdd", "storage.k8s.io/StorageClassUpdate", "storage.k8s.io/CSINodeAdd",
	"storage.k8s.io/CSINodeUpdate", "storage.k8s.io/CSIDriverUpdate", "storage.k8s.io/CSIStorageCapacityAdd",
	"storage.k8s.io/CSIStorageCapacityUpdate", "storage.k8s.io/VolumeAttachmentDelete",
	"resource.k8s.io/ResourceClaimAdd", "resource.k8s.io/ResourceClaimUpdate", "resource.k8s.io/DeviceClassAdd",
	"resource.k8s.io/DeviceClassUpdate", "resource.k8s.io/ResourceSliceAdd", "resource.k8s.io/ResourceSliceUpdate",
	"NodeConditionUpdate", "NodeAnnotationUpdate", "NodeDeclaredFeatureUpdate", "Watched",
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
	// Old and New are any other object before and after; Old is nil when it was added, New when it was removed.
	Old, New any
	// Resource and Action are set for Watched: the resource as the plug-in registered it, and what happened to it.
	Resource string
	Action   int64
}

// Cause names the event for metrics and logs.
func (e Event) Cause() string {
	if e.Kind == Watched {
		return e.Resource
	}
	return e.Kind.String()
}

// Hint selects the events that may make a pod schedulable that a plug-in rejected.
type Hint struct {
	Kinds Kind
	// Helps is the queueing hint; nil queues for every such event.
	Helps func(p *snapshot.Pod, e Event) bool
}

// Wants tells whether some plug-in asks for one of the kinds.
func (h Hints) Wants(kinds Kind) bool {
	for _, hints := range h {
		for _, hint := range hints {
			if hint.Kinds&kinds != 0 {
				return true
			}
		}
	}
	return false
}

// Events names the events that may help a pod which a plug-in refused.
func (h Hints) Events(plugin string) []string {
	var kinds Kind
	for _, hint := range h[plugin] {
		kinds |= hint.Kinds
	}
	var names []string
	for i, name := range kindNames {
		if kinds&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Hints of plug-ins by their name.
type Hints map[string][]Hint

// Helps tells whether e can help a pod refused by any of plugins; a pod refused by none is helped by anything.
func (h Hints) Helps(p *snapshot.Pod, plugins []string, e Event) bool {
	return h.ask(plugins, e, func(_ string, helps func(*snapshot.Pod, Event) bool) bool { return helps(p, e) })
}

// ask has run call the queueing hints that matter, until one says that e helps.
func (h Hints) ask(plugins []string, e Event,
	run func(plugin string, helps func(*snapshot.Pod, Event) bool) bool) bool {
	if len(plugins) == 0 {
		return true
	}
	for _, plugin := range plugins {
		for _, hint := range h[plugin] {
			if hint.Kinds&e.Kind != 0 && (hint.Helps == nil || run(plugin, hint.Helps)) {
				return true
			}
		}
	}
	return false
}
