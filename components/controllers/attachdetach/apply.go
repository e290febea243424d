package attachdetach

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
)

// memory is what the API doesn't tell. A controller that starts with none waits longer, and repeats events.
type memory struct {
	// idleSince is when an attachment was found without use first, by its name.
	idleSince map[string]time.Time
	// pending are attachments that were made here and are not attached yet, by name.
	pending map[string]*storagev1.VolumeAttachment
	// told is the last failure that pods were told of, by the name of the attachment.
	told map[string]time.Time
	// blocked are attachments of whose obstacle pods were told.
	blocked map[string]bool
}

func newMemory() memory {
	return memory{idleSince: map[string]time.Time{}, pending: map[string]*storagev1.VolumeAttachment{},
		told: map[string]time.Time{}, blocked: map[string]bool{}}
}

// unseen returns the attachments that were made here and that the informer doesn't have yet.
func (m *memory) unseen(seen []*storagev1.VolumeAttachment) []*storagev1.VolumeAttachment {
	if len(m.pending) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, attachment := range seen {
		names[attachment.Name] = true
	}
	var missing []*storagev1.VolumeAttachment
	for name, attachment := range m.pending {
		if !names[name] && attachment != nil {
			missing = append(missing, attachment)
		}
		if names[name] {
			m.pending[name] = nil // from now on the informer tells
		}
	}
	return missing
}

func (m *memory) forget(name string) {
	delete(m.idleSince, name)
	delete(m.pending, name)
	delete(m.told, name)
	delete(m.blocked, name)
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	v, err := c.observe(name)
	if err != nil {
		return err
	}
	c.meters.detached(v)
	c.noteIdle(v)
	p := planNode(v)
	for _, w := range p.blocked {
		c.tellBlocked(v, w)
	}
	for _, w := range p.attach {
		if err := c.attach(ctx, name, w); err != nil {
			return err
		}
	}
	c.tellProgress(v)
	if err := c.report(ctx, v, p.report); err != nil {
		return err
	}
	for _, attachment := range p.detach {
		if err := c.detach(ctx, v, attachment, p.forced[attachment.Name]); err != nil {
			return err
		}
	}
	if p.again > 0 {
		c.loop.AddAfter(name, p.again)
	}
	return nil
}

// noteIdle remembers since when attachments are not needed.
func (c *Controller) noteIdle(v *view) {
	for _, attachment := range v.attachments {
		_, wanted := v.wants[attachment.Name]
		if _, known := c.memory.idleSince[attachment.Name]; wanted {
			delete(c.memory.idleSince, attachment.Name)
		} else if !known {
			c.memory.idleSince[attachment.Name] = v.now
		}
	}
}

func (c *Controller) tellBlocked(v *view, w want) {
	name := attachmentName(w.volume, v.name)
	if c.memory.blocked[name] {
		return
	}
	c.memory.blocked[name] = true
	for _, pod := range w.pods {
		c.env.Events.Event(pod, v1.EventTypeWarning, "FailedAttachVolume",
			blockedMessage(pod, w.volume.Name, v.usersElsewhere[w.volume.Name]))
	}
}

func (c *Controller) attach(ctx context.Context, node string, w want) error {
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName(w.volume, node)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: w.volume.Spec.CSI.Driver, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(w.volume.Name)},
		},
	}
	c.memory.forget(attachment.Name)
	created, err := c.env.Client.StorageV1().VolumeAttachments().Create(ctx, attachment, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // the informer is behind
	case err != nil:
		c.tellFailed(w.pods, w.volume.Name, err.Error())
		return fmt.Errorf("attach volume %s to node %s: %w", w.volume.Name, node, err)
	}
	c.memory.pending[created.Name] = created
	c.meters.attaching[created.Name] = operation{node, csiPlugin + w.volume.Spec.CSI.Driver, c.env.Clock.Now()}
	c.loop.AddAfter(node, attachTimeout)
	return nil
}

func (c *Controller) tellFailed(pods []*v1.Pod, volume, why string) {
	for _, pod := range pods {
		c.env.Events.Event(pod, v1.EventTypeWarning, "FailedAttachVolume",
			fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", volume, why))
	}
}

// tellProgress records what became of attachments: an attacher that failed, that takes too long, or that has succeeded.
func (c *Controller) tellProgress(v *view) {
	for _, attachment := range v.attachments {
		name := attachment.Name
		w, wanted := v.wants[name]
		_, pending := c.memory.pending[name]
		failure := attachment.Status.AttachError
		switch {
		case !wanted:
		case attachment.Status.Attached:
			c.meters.attached(name, "success", v.now)
			delete(c.memory.told, name)
			if !pending {
				continue // before this controller was there
			}
			delete(c.memory.pending, name)
			for _, pod := range w.pods {
				c.env.Events.Event(pod, v1.EventTypeNormal, "SuccessfulAttachVolume",
					fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", w.volume.Name))
			}
		case failure != nil:
			c.meters.attached(name, "fail-unknown", v.now)
			if !c.memory.told[name].Equal(failure.Time.Time) {
				c.memory.told[name] = failure.Time.Time
				c.tellFailed(w.pods, w.volume.Name, failure.Message)
			}
		case pending && !attachment.CreationTimestamp.IsZero() &&
			v.now.Sub(attachment.CreationTimestamp.Time) >= attachTimeout &&
			v.now.Sub(c.memory.told[name]) >= attachTimeout:
			c.memory.told[name] = v.now
			c.tellFailed(w.pods, w.volume.Name, fmt.Sprintf(
				"timed out waiting for external-attacher of %s CSI driver to attach volume %s",
				w.volume.Spec.CSI.Driver, w.volume.Spec.CSI.VolumeHandle))
			c.loop.AddAfter(v.name, attachTimeout)
		}
	}
}

// report writes which volumes the node has.
func (c *Controller) report(ctx context.Context, v *view, attached []v1.AttachedVolume) error {
	if v.node == nil || !managed(v.node) || slices.Equal(v.node.Status.VolumesAttached, attached) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesAttached": attached}})
	if err != nil {
		return err
	}
	_, err = c.env.Client.CoreV1().Nodes().Patch(ctx, v.name, types.MergePatchType, patch, metav1.PatchOptions{},
		"status")
	if err = runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("attached volumes of node %s: %w", v.name, err)
	}
	return nil
}

// detach deletes an attachment. Unless it is forced, the API server is asked once more whether the volume is in use:
// the kubelet says so before it mounts, and mounts only what is reported as attached, which this volume is no longer.
func (c *Controller) detach(ctx context.Context, v *view, attachment *storagev1.VolumeAttachment, forced bool) error {
	if !forced {
		node, err := c.env.Client.CoreV1().Nodes().Get(ctx, v.name, metav1.GetOptions{})
		if runner.IgnoreGone(err) != nil {
			return fmt.Errorf("node %s: %w", v.name, err)
		}
		if err == nil && inUse(node, attachment, v.volumes[*attachment.Spec.Source.PersistentVolumeName]) {
			return fmt.Errorf("volume of attachment %s is in use on node %s again", attachment.Name, v.name)
		}
	}
	if _, known := c.meters.detaching[attachment.Name]; !known {
		c.meters.detaching[attachment.Name] = operation{v.name, csiPlugin + attachment.Spec.Attacher, v.now}
		if forced {
			c.meters.force(v.node)
		}
	}
	delete(c.meters.attaching, attachment.Name)
	err := c.env.Client.StorageV1().VolumeAttachments().Delete(ctx, attachment.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(attachment.UID))})
	if err = runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("detach %s from node %s: %w", attachment.Name, v.name, err)
	}
	c.memory.forget(attachment.Name)
	return nil
}
