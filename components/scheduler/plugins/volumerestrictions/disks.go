package volumerestrictions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// disksOf lists the volumes of a pod that may conflict with those of others on a node.
func disksOf(p *snapshot.Pod) []*v1.Volume {
	var disks []*v1.Volume
	for i := range p.Obj.Spec.Volumes {
		v := &p.Obj.Spec.Volumes[i]
		if v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil {
			disks = append(disks, v)
		}
	}
	return disks
}

func conflicts(disks []*v1.Volume, p *snapshot.Pod) bool {
	for _, disk := range disks {
		for i := range p.Obj.Spec.Volumes {
			if conflict(disk, &p.Obj.Spec.Volumes[i]) {
				return true
			}
		}
	}
	return false
}

// conflict tells whether two volumes are of one disk that pods of one node can't share. Reading together is allowed,
// but of an AWS volume.
func conflict(a, b *v1.Volume) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		x, y := a.GCEPersistentDisk, b.GCEPersistentDisk
		return x.PDName == y.PDName && !(x.ReadOnly && y.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		return a.ISCSI.IQN == b.ISCSI.IQN && !(a.ISCSI.ReadOnly && b.ISCSI.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		x, y := a.RBD, b.RBD
		share := slices.ContainsFunc(x.CephMonitors, func(m string) bool { return slices.Contains(y.CephMonitors, m) })
		return share && x.RBDPool == y.RBDPool && x.RBDImage == y.RBDImage && !(x.ReadOnly && y.ReadOnly)
	}
	return false
}
