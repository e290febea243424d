package csi

import (
	"context"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// Usage implements volumes.Meter by the driver's own figures.
func (p *Plugin) Usage(ctx context.Context, s *volumes.Source, where volumes.Mounted) (volumes.Usage, bool, error) {
	driver, handle, staging := "", "", ""
	files := layout{p.Root}
	if s.PV != nil {
		driver, handle = s.PV.Spec.CSI.Driver, s.PV.Spec.CSI.VolumeHandle
		staging = filepath.Join(files.staged(driver, handle), "globalmount")
		if s.Block {
			staging = files.stagedDevice(s.Name())
		}
	} else {
		driver, handle = s.Volume.CSI.Driver, inlineHandle(s.Pod.UID, s.Volume.Name)
	}
	client, err := p.Drivers.connect(driver)
	if err != nil {
		return volumes.Usage{}, false, err
	}
	defer client.close()
	able, err := client.abilities(ctx)
	if err != nil || !able[csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS] {
		return volumes.Usage{}, false, err
	}
	if !able[csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] || s.PV == nil {
		staging = ""
	}
	answer, err := client.node.NodeGetVolumeStats(ctx, &csispec.NodeGetVolumeStatsRequest{
		VolumeId: handle, VolumePath: where.Path, StagingTargetPath: staging,
	})
	if err != nil {
		return volumes.Usage{}, false, err
	}
	usage := volumes.Usage{}
	for _, u := range answer.GetUsage() {
		switch u.GetUnit() {
		case csispec.VolumeUsage_BYTES:
			usage.Capacity, usage.Available, usage.Used = u.GetTotal(), u.GetAvailable(), u.GetUsed()
		case csispec.VolumeUsage_INODES:
			usage.Inodes, usage.InodesFree, usage.InodesUsed = u.GetTotal(), u.GetAvailable(), u.GetUsed()
		}
	}
	return usage, true, nil
}
