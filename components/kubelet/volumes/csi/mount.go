package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// SetUp implements volumes.Plugin: the volume is attached, staged on the node, and published to the pod.
func (p *Plugin) SetUp(ctx context.Context, s *volumes.Source) (volumes.Mounted, error) {
	v, err := p.describe(ctx, s)
	if err != nil {
		return volumes.Mounted{}, err
	}
	dir := layout{p.Root}.published(s.Pod.UID, s.Name())
	where := volumes.Mounted{Path: filepath.Join(dir, "mount"), ReadOnly: s.ReadOnly}
	done := p.isPublished(v)
	if done && !republishes(v) && !grows(v) {
		return where, nil
	}
	attachment, err := p.waitForAttach(ctx, v)
	if err != nil {
		p.releaseIdle(v)
		return volumes.Mounted{}, volumes.Fails(volumes.StepAttach, err)
	}
	err = p.locks.with(v.key(), func() error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return p.mount(ctx, v, dir, attachment, done)
	})
	return where, err
}

// mount stages and publishes a volume; done tells that it has been published to the pod already.
func (p *Plugin) mount(ctx context.Context, v *volume, dir string, attachment map[string]string, done bool) error {
	client, err := p.Drivers.connect(v.driverName)
	if err != nil {
		step := "attacher.MountDevice failed to create newCsiDriverClient"
		if v.inline {
			return fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: %w", err)
		}
		return volumes.Fails(volumes.StepStage, fmt.Errorf("kubernetes.io/csi: %s: %w", step, err))
	}
	defer client.close()
	able, err := client.abilities(ctx)
	if err != nil {
		return err
	}
	if !done { // before all that may have to be undone
		if err := p.recordOf(v).write(dir); err != nil {
			return err
		}
	}
	group := ""
	if able[csispec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] && v.FSGroup() != nil {
		group = strconv.FormatInt(*v.FSGroup(), 10)
	}
	staging := ""
	if !v.inline && able[csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		staging = filepath.Join(layout{p.Root}.staged(v.driverName, v.handle), "globalmount")
		if !done {
			if err := p.stage(ctx, client, v, staging, v.capability(able, group), attachment); err != nil {
				return volumes.Fails(volumes.StepStage, err)
			}
		}
	}
	if !done || republishes(v) {
		if err := p.publish(ctx, client, v, dir, staging, v.capability(able, group), attachment); err != nil {
			return err
		}
	}
	if !done && group == "" && ownsFiles(v) {
		policy := v.Pod.Spec.SecurityContext.FSGroupChangePolicy
		if err := volumes.SetOwnership(filepath.Join(dir, "mount"), *v.FSGroup(), policy); err != nil {
			return fmt.Errorf("applyFSGroup failed for vol %s: %w", v.handle, err)
		}
	}
	if err := p.expand(ctx, client, v, filepath.Join(dir, "mount"), staging, able, v.capability(able, group)); err != nil {
		return volumes.Fails(volumes.StepExpand, err)
	}
	p.notePublished(v)
	return nil
}

// stage prepares a volume for all pods of the node. Drivers answer at once if that was done before.
func (p *Plugin) stage(ctx context.Context, client *client, v *volume, staging string,
	capability *csispec.VolumeCapability, attachment map[string]string) error {
	secrets, err := p.secret(ctx, v.stageSecret)
	if err != nil {
		return err
	}
	dir := filepath.Dir(staging)
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return err
	}
	if err := (record{DriverName: v.driverName, VolumeHandle: v.handle}).write(dir); err != nil {
		return err
	}
	_, err = client.node.NodeStageVolume(ctx, &csispec.NodeStageVolumeRequest{
		VolumeId: v.handle, PublishContext: attachment, StagingTargetPath: staging, VolumeCapability: capability,
		Secrets: secrets, VolumeContext: v.attributes,
	})
	return err
}

// publish makes a volume appear in the directory of a pod.
func (p *Plugin) publish(ctx context.Context, client *client, v *volume, dir, staging string,
	capability *csispec.VolumeCapability, attachment map[string]string) error {
	request, err := p.publishRequest(ctx, v, capability)
	if err != nil {
		return err
	}
	request.PublishContext, request.StagingTargetPath = attachment, staging
	request.TargetPath = filepath.Join(dir, "mount")
	_, err = client.node.NodePublishVolume(ctx, request)
	return err
}

// publishRequest is the request of a volume without its paths.
func (p *Plugin) publishRequest(ctx context.Context, v *volume,
	capability *csispec.VolumeCapability) (*csispec.NodePublishVolumeRequest, error) {
	secrets, err := p.secret(ctx, v.publishSecret)
	if err != nil {
		return nil, err
	}
	request := &csispec.NodePublishVolumeRequest{
		VolumeId: v.handle, VolumeCapability: capability, Readonly: v.ReadOnly, Secrets: secrets,
		VolumeContext: map[string]string{},
	}
	for key, value := range v.attributes {
		request.VolumeContext[key] = value
	}
	v.addPodInfo(request.VolumeContext)
	return request, p.addTokens(ctx, v, request)
}

// addPodInfo tells the driver about the pod, where it asks for that
// (https://kubernetes-csi.github.io/docs/pod-info.html).
func (v *volume) addPodInfo(values map[string]string) {
	if v.driver == nil || v.driver.Spec.PodInfoOnMount == nil || !*v.driver.Spec.PodInfoOnMount {
		return
	}
	values["csi.storage.k8s.io/pod.name"] = v.Pod.Name
	values["csi.storage.k8s.io/pod.namespace"] = v.Pod.Namespace
	values["csi.storage.k8s.io/pod.uid"] = string(v.Pod.UID)
	values["csi.storage.k8s.io/serviceAccount.name"] = v.Pod.Spec.ServiceAccountName
	values["csi.storage.k8s.io/ephemeral"] = strconv.FormatBool(v.inline)
}

// ownsFiles tells whether the kubelet gives the volume's files to the pod's group
// (https://kubernetes-csi.github.io/docs/support-fsgroup.html).
func ownsFiles(v *volume) bool {
	if v.FSGroup() == nil || v.ReadOnly {
		return false
	}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if v.driver != nil && v.driver.Spec.FSGroupPolicy != nil {
		policy = *v.driver.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.FileFSGroupPolicy:
		return true
	case storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy:
		return !v.inline && v.fsType != "" && onOneNode(v.PV)
	default:
		return false
	}
}

// onOneNode tells whether a volume may be written to from one node only.
func onOneNode(pv *v1.PersistentVolume) bool {
	for _, mode := range pv.Spec.AccessModes {
		if mode == v1.ReadWriteOnce || mode == v1.ReadWriteOncePod {
			return true
		}
	}
	return false
}

// republishes tells whether the driver wants the volume published again now and then.
func republishes(v *volume) bool {
	return v.driver != nil && v.driver.Spec.RequiresRepublish != nil && *v.driver.Spec.RequiresRepublish
}

func (p *Plugin) isPublished(v *volume) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published[publishKey{v.Pod.UID, v.Name()}]
}

func (p *Plugin) notePublished(v *volume) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.published == nil {
		p.published = map[publishKey]bool{}
	}
	p.published[publishKey{v.Pod.UID, v.Name()}] = true
}
