package csi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// attachTimeout is how long a volume's attacher may take before the attempt to mount the volume fails.
	attachTimeout = 2 * time.Minute
	attachPeriod  = 500 * time.Millisecond
)

// attached tells whether the volume is attached to the node by a controller before it is used. A driver that has no
// object attaches, as its default is.
func (v *volume) attached() bool {
	if v.inline {
		return false
	}
	return v.driver == nil || v.driver.Spec.AttachRequired == nil || *v.driver.Spec.AttachRequired
}

// attachmentName is the name of the VolumeAttachment of a volume and a node.
func attachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// waitForAttach waits until the volume is attached to the node, and returns what its driver is told of that.
func (p *Plugin) waitForAttach(ctx context.Context, v *volume) (map[string]string, error) {
	if !v.attached() {
		return nil, nil
	}
	p.use(v.uniqueName())
	name := attachmentName(v.handle, v.driverName, p.NodeName)
	deadline := p.Clock.Now().Add(attachTimeout)
	for {
		attachment, err := p.Client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // the controller may not have made it yet
			return nil, fmt.Errorf("volume %s has GET error for volume attachment %s: %w", v.handle, name, err)
		}
		if err == nil {
			done, err := attachmentStatus(attachment, v)
			if done || err != nil {
				return attachment.Status.AttachmentMetadata, err
			}
		}
		if !p.Clock.Now().Before(deadline) {
			return nil, fmt.Errorf("timed out waiting for external-attacher of %s CSI driver to attach volume %s",
				v.driverName, v.handle)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.Clock.After(attachPeriod):
		}
	}
}

func attachmentStatus(attachment *storagev1.VolumeAttachment, v *volume) (bool, error) {
	switch {
	case attachment.DeletionTimestamp != nil:
		return false, fmt.Errorf("volume %s has deletion timestamp set for volume attachment %s", v.handle, attachment.Name)
	case attachment.Status.Attached:
		return true, nil
	case attachment.Status.AttachError != nil:
		return false, errors.New(attachment.Status.AttachError.Message)
	default:
		return false, nil
	}
}

// VolumesInUse are the volumes of the node that must not be detached.
func (p *Plugin) VolumesInUse() []v1.UniqueVolumeName {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]v1.UniqueVolumeName, 0, len(p.inUse))
	for name := range p.inUse {
		names = append(names, name)
	}
	return names
}

func (p *Plugin) use(name v1.UniqueVolumeName) {
	p.mu.Lock()
	known := p.inUse[name]
	if p.inUse == nil {
		p.inUse = map[v1.UniqueVolumeName]bool{}
	}
	p.inUse[name] = true
	p.mu.Unlock()
	if !known && p.UseChanged != nil {
		p.UseChanged()
	}
}

// unuse forgets a volume of which nothing is left on the node.
func (p *Plugin) unuse(name v1.UniqueVolumeName) {
	p.mu.Lock()
	known := p.inUse[name]
	delete(p.inUse, name)
	p.mu.Unlock()
	if known && p.UseChanged != nil {
		p.UseChanged()
	}
}

// releaseIdle forgets a volume that could not be attached, unless a pod uses it.
func (p *Plugin) releaseIdle(v *volume) {
	used, err := p.recorded()
	if err == nil && !used[v.uniqueName()] {
		p.unuse(v.uniqueName())
	}
}

// recorded are the attached volumes that the disk tells of. Those that can be read are returned with an error about the
// others.
func (p *Plugin) recorded() (map[v1.UniqueVolumeName]bool, error) {
	files := layout{p.Root}
	records, err := files.records()
	all, deviceErr := files.deviceRecords()
	for _, r := range records {
		all = append(all, r)
	}
	used := map[v1.UniqueVolumeName]bool{}
	for _, r := range all {
		if r.AttachmentID != "" {
			used[uniqueName(r.DriverName, r.VolumeHandle)] = true
		}
	}
	return used, errors.Join(err, deviceErr)
}

// Restore takes in the volumes that an earlier run of the kubelet left attached to pods. It is called before the first
// volume is set up. An error is about records that a crash of the machine cut off; the others were taken in.
func (p *Plugin) Restore() error {
	used, err := p.recorded()
	for name := range used {
		p.use(name)
	}
	return err
}
