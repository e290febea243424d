package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// SetUpDevice implements volumes.BlockPlugin.
func (p *Plugin) SetUpDevice(ctx context.Context, s *volumes.Source) (volumes.Mounted, error) {
	v, err := p.describe(ctx, s)
	if err != nil {
		return volumes.Mounted{}, err
	}
	device := layout{p.Root}.publishedDevice(s.Name(), s.Pod.UID)
	done := p.isPublished(v)
	if !done || republishes(v) || grows(v) {
		attachment, err := p.waitForAttach(ctx, v)
		if err != nil {
			p.releaseIdle(v)
			return volumes.Mounted{}, volumes.Fails(volumes.StepMapAttach, err)
		}
		err = p.locks.with(v.key(), func() error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			return p.mapDevice(ctx, v, device, attachment, done)
		})
		if err != nil {
			return volumes.Mounted{}, err
		}
	}
	return volumes.LinkDevice(p.Root, s, pluginName, device)
}

// mapDevice stages and publishes a block volume; done tells that it has been published to the pod already.
func (p *Plugin) mapDevice(ctx context.Context, v *volume, device string, attachment map[string]string,
	done bool) error {
	client, err := p.Drivers.connect(v.driverName)
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: blockMapper.SetupDevice failed to get CSI client: %w", err)
	}
	defer client.close()
	able, err := client.abilities(ctx)
	if err != nil {
		return err
	}
	files, capability, staging := layout{p.Root}, v.capability(able, ""), ""
	if !done {
		// The link is there before all that may have to be undone: what failed or crashed is found by it.
		if _, err := volumes.LinkDevice(p.Root, v.Source, pluginName, device); err != nil {
			return err
		}
		if err := p.recordOf(v).write(files.deviceRecord(v.Name())); err != nil {
			return err
		}
	}
	if able[csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		staging = files.stagedDevice(v.Name())
		if !done {
			if err := p.stageDevice(ctx, client, v, staging, capability, attachment); err != nil {
				return err
			}
		}
	}
	if !done || republishes(v) {
		request, err := p.publishRequest(ctx, v, capability)
		if err != nil {
			return volumes.Fails(volumes.StepMap, err)
		}
		if err := os.MkdirAll(filepath.Dir(device), 0o750); err != nil {
			return err
		}
		request.PublishContext, request.StagingTargetPath, request.TargetPath = attachment, staging, device
		if _, err := client.node.NodePublishVolume(ctx, request); err != nil {
			return volumes.Fails(volumes.StepMap, err)
		}
	}
	if err := p.expand(ctx, client, v, device, staging, able, capability); err != nil {
		return volumes.Fails(volumes.StepExpand, err)
	}
	p.notePublished(v)
	return nil
}

func (p *Plugin) stageDevice(ctx context.Context, client *client, v *volume, staging string,
	capability *csispec.VolumeCapability, attachment map[string]string) error {
	secrets, err := p.secret(ctx, v.stageSecret)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return err
	}
	_, err = client.node.NodeStageVolume(ctx, &csispec.NodeStageVolumeRequest{
		VolumeId: v.handle, PublishContext: attachment, StagingTargetPath: staging, VolumeCapability: capability,
		Secrets: secrets, VolumeContext: v.attributes,
	})
	return err
}
