package scheduler

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"quintet.dev/quintet/components/scheduler/queue"
)

// watchVolumes watches the storage objects that pods with volumes depend on.
func (s *Scheduler) watchVolumes(f *feeds, served sets.Set[string]) {
	core, storage := f.Core().V1(), f.Storage().V1()
	if served.Has("persistentvolumes") && served.Has("persistentvolumeclaims") {
		storageFeed(s, f, core.PersistentVolumes().Informer(), queue.VolumeAdded, queue.VolumeUpdated, 0,
			func(v *v1.PersistentVolume) { s.snapshot.SetVolume(v) },
			func(v *v1.PersistentVolume) { s.snapshot.RemoveVolume(v.Name) })
		storageFeed(s, f, core.PersistentVolumeClaims().Informer(), queue.ClaimAdded, queue.ClaimUpdated, 0,
			func(c *v1.PersistentVolumeClaim) { s.snapshot.SetClaim(c) },
			func(c *v1.PersistentVolumeClaim) { s.snapshot.RemoveClaim(nameOf(c)) })
	}
	if served.Has("storageclasses") {
		storageFeed(s, f, storage.StorageClasses().Informer(), queue.StorageClassAdded, queue.StorageClassUpdated, 0,
			func(c *storagev1.StorageClass) { s.snapshot.SetStorageClass(c) },
			func(c *storagev1.StorageClass) { s.snapshot.RemoveStorageClass(c.Name) })
	}
	if served.Has("csinodes") {
		storageFeed(s, f, storage.CSINodes().Informer(), queue.CSINodeAdded, queue.CSINodeUpdated, 0,
			func(n *storagev1.CSINode) { s.snapshot.SetCSINode(n) },
			func(n *storagev1.CSINode) { s.snapshot.RemoveCSINode(n.Name) })
	}
	if served.Has("csidrivers") {
		storageFeed(s, f, storage.CSIDrivers().Informer(), 0, queue.CSIDriverUpdated, 0,
			func(d *storagev1.CSIDriver) { s.snapshot.SetCSIDriver(d) },
			func(d *storagev1.CSIDriver) { s.snapshot.RemoveCSIDriver(d.Name) })
	}
	if served.Has("csistoragecapacities") {
		storageFeed(s, f, storage.CSIStorageCapacities().Informer(), queue.CapacityAdded, queue.CapacityUpdated, 0,
			func(c *storagev1.CSIStorageCapacity) { s.snapshot.SetCapacity(c) },
			func(c *storagev1.CSIStorageCapacity) { s.snapshot.RemoveCapacity(nameOf(c)) })
	}
	if served.Has("volumeattachments") {
		storageFeed(s, f, storage.VolumeAttachments().Informer(), 0, 0, queue.AttachmentRemoved,
			func(a *storagev1.VolumeAttachment) { s.snapshot.SetAttachment(a) },
			func(a *storagev1.VolumeAttachment) { s.snapshot.RemoveAttachment(a) })
	}
}

// storageFeed keeps objects in the snapshot and tells the queue of their changes; a kind of 0 is not told.
func storageFeed[T metav1.Object](s *Scheduler, f *feeds, informer source, added, updated,
	removed queue.Kind, set, remove func(T)) {
	tell := func(kind queue.Kind, e queue.Event) {
		if e.Kind = kind; kind != 0 {
			s.queue.Move(e)
		}
	}
	feed(f, informer,
		func(obj T) {
			s.state.change(func() {
				set(obj)
				tell(added, queue.Event{New: obj})
			})
		},
		func(old, now T) {
			s.state.change(func() {
				set(now)
				tell(updated, queue.Event{Old: old, New: now})
			})
		},
		func(obj T) {
			s.state.change(func() {
				remove(obj)
				tell(removed, queue.Event{Old: obj})
			})
		})
}
