package volumebinding

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Hints say which changes of nodes and storage objects can help a pod.
func (*Plugin) Hints() []queue.Hint {
	return []queue.Hint{
		{Kinds: queue.NodeAdded | queue.NodeLabels | queue.NodeTaints},
		{Kinds: queue.ClaimAdded | queue.ClaimUpdated, Helps: func(p *snapshot.Pod, e queue.Event) bool {
			claim, ok := e.New.(*v1.PersistentVolumeClaim)
			return ok && p.Uses(nameOf(claim))
		}},
		{Kinds: queue.VolumeAdded | queue.VolumeUpdated},
		{Kinds: queue.StorageClassAdded | queue.StorageClassUpdated, Helps: classHelps},
		{Kinds: queue.CSINodeAdded | queue.CSINodeUpdated, Helps: csiNodeHelps},
		{Kinds: queue.CSIDriverUpdated, Helps: driverHelps},
		{Kinds: queue.CapacityAdded | queue.CapacityUpdated, Helps: capacityHelps},
	}
}

// classHelps by being new, or by allowing more nodes.
func classHelps(_ *snapshot.Pod, e queue.Event) bool {
	old, ok := e.Old.(*storagev1.StorageClass)
	now, is := e.New.(*storagev1.StorageClass)
	return !ok || is && !equality.Semantic.DeepEqual(old.AllowedTopologies, now.AllowedTopologies)
}

// migrated is the annotation that names the in-tree plug-ins whose volumes CSI drivers of the node serve.
const migrated = "storage.alpha.kubernetes.io/migrated-plugins"

func csiNodeHelps(_ *snapshot.Pod, e queue.Event) bool {
	old, ok := e.Old.(*storagev1.CSINode)
	now, is := e.New.(*storagev1.CSINode)
	return !ok || is && old.Annotations[migrated] != now.Annotations[migrated]
}

// driverHelps when capacities of it don't count any more.
func driverHelps(_ *snapshot.Pod, e queue.Event) bool {
	counts := func(obj any) bool {
		d, ok := obj.(*storagev1.CSIDriver)
		return ok && d.Spec.StorageCapacity != nil && *d.Spec.StorageCapacity
	}
	return counts(e.Old) && !counts(e.New)
}

// capacityHelps when it has grown.
func capacityHelps(_ *snapshot.Pod, e queue.Event) bool {
	old, ok := e.Old.(*storagev1.CSIStorageCapacity)
	now, is := e.New.(*storagev1.CSIStorageCapacity)
	if !ok || !is {
		return is
	}
	grown := func(a, b *storagev1.CSIStorageCapacity) bool {
		return a.Capacity == nil && b.Capacity != nil ||
			a.Capacity != nil && b.Capacity != nil && a.Capacity.Cmp(*b.Capacity) < 0 ||
			a.MaximumVolumeSize == nil && b.MaximumVolumeSize != nil ||
			a.MaximumVolumeSize != nil && b.MaximumVolumeSize != nil && a.MaximumVolumeSize.Cmp(*b.MaximumVolumeSize) < 0
	}
	return grown(old, now) || !equality.Semantic.DeepEqual(old.NodeTopology, now.NodeTopology) ||
		!maps.Equal(old.Labels, now.Labels)
}
