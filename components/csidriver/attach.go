package csidriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/utils/clock"
)

// attacher carries out the VolumeAttachments of this node.
type attacher struct {
	config      *Config
	driver      csi.ControllerClient
	objects     kubernetes.Interface
	attachments storagelisters.VolumeAttachmentLister
	volumes     corelisters.PersistentVolumeLister
	clock       clock.PassiveClock
}

// mine tells whether an attachment is of this driver and node.
func (c *Config) mine(a *storagev1.VolumeAttachment) bool {
	return a.Spec.Attacher == c.DriverName && a.Spec.NodeName == c.NodeID
}

var noDNSLabel = regexp.MustCompile(`[^a-z0-9-]`)

// attachFinalizer keeps an attachment until its volume is detached; it is named as external-attacher's.
func (c *Config) attachFinalizer() string {
	return "external-attacher/" + noDNSLabel.ReplaceAllString(strings.ToLower(c.DriverName), "-")
}

// attachStep is what to do about an attachment.
type attachStep int

const (
	attachNothing attachStep = iota
	attachProtect            // add the finalizer, before the volume is attached
	attachVolume
	detachVolume // and remove the finalizer
)

func planAttachment(a *storagev1.VolumeAttachment, finalizer string) attachStep {
	protected := slices.Contains(a.Finalizers, finalizer)
	switch {
	case a.DeletionTimestamp != nil && protected:
		return detachVolume
	case a.DeletionTimestamp != nil, a.Status.Attached:
		return attachNothing
	case !protected:
		return attachProtect
	default:
		return attachVolume
	}
}

func (a *attacher) reconcile(ctx context.Context, name string) error {
	attachment, err := a.attachments.Get(name)
	if err != nil {
		return ignoreGone(err)
	}
	if !a.config.mine(attachment) {
		return nil
	}
	switch planAttachment(attachment, a.config.attachFinalizer()) {
	case attachProtect: // the change brings the attachment back
		finalizers := append(slices.Clone(attachment.Finalizers), a.config.attachFinalizer())
		return a.patch(ctx, attachment, map[string]any{"metadata": finalizersPatch(attachment, finalizers)})
	case attachVolume:
		return a.attach(ctx, attachment)
	case detachVolume:
		return a.detach(ctx, attachment)
	}
	return nil
}

// finalizersPatch replaces finalizers, unless the object has changed meanwhile.
func finalizersPatch(o metav1.Object, finalizers []string) map[string]any {
	return map[string]any{"finalizers": finalizers, "resourceVersion": o.GetResourceVersion()}
}

func (a *attacher) attach(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	metadata, err := a.publish(ctx, attachment)
	if err != nil {
		return errors.Join(err, a.note(ctx, attachment, "attachError", err))
	}
	return a.patch(ctx, attachment, map[string]any{"status": map[string]any{
		"attached": true, "attachmentMetadata": metadata, "attachError": nil}}, "status")
}

// publish has the driver publish the attachment's volume to the node.
func (a *attacher) publish(ctx context.Context, attachment *storagev1.VolumeAttachment) (map[string]string, error) {
	if attachment.Spec.Source.PersistentVolumeName == nil {
		return nil, fmt.Errorf("VolumeAttachment %s: only persistent volumes are attached", attachment.Name)
	}
	pv, err := a.volumes.Get(*attachment.Spec.Source.PersistentVolumeName)
	if err != nil {
		return nil, err
	}
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != a.config.DriverName {
		return nil, fmt.Errorf("volume %s is none of driver %s", pv.Name, a.config.DriverName)
	}
	response, err := a.driver.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, NodeId: a.config.NodeID, Readonly: pv.Spec.CSI.ReadOnly,
		VolumeCapability: volumeCapability(pv), VolumeContext: pv.Spec.CSI.VolumeAttributes,
	})
	if err != nil {
		return nil, err
	}
	return response.GetPublishContext(), nil
}

// volumeCapability is how a persistent volume is used.
func volumeCapability(pv *v1.PersistentVolume) *csi.VolumeCapability {
	mode := csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	if len(pv.Spec.AccessModes) > 0 {
		mode = accessMode(pv.Spec.AccessModes[0])
	}
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
	if pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: pv.Spec.CSI.FSType,
			MountFlags: pv.Spec.MountOptions}}
	}
	return c
}

// detach has the driver withdraw the volume from the node, and lets the attachment go. What the driver holds of a
// volume whose persistent volume is gone stays until the driver is asked to delete it.
func (a *attacher) detach(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	var pv *v1.PersistentVolume
	var err error
	if name := attachment.Spec.Source.PersistentVolumeName; name != nil {
		if pv, err = a.volumes.Get(*name); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if pv != nil && pv.Spec.CSI != nil {
		_, err := a.driver.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{
			VolumeId: pv.Spec.CSI.VolumeHandle, NodeId: a.config.NodeID})
		if err != nil && status.Code(err) != codes.NotFound {
			return errors.Join(err, a.note(ctx, attachment, "detachError", err))
		}
	}
	finalizers := slices.DeleteFunc(slices.Clone(attachment.Finalizers),
		func(f string) bool { return f == a.config.attachFinalizer() })
	if err := a.patch(ctx, attachment, map[string]any{"status": map[string]any{
		"attached": false, "detachError": nil}}, "status"); err != nil {
		return err
	}
	// The status has changed the version: nothing but the finalizers is compared.
	return a.patch(ctx, attachment, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
}

// note writes an error into the status of an attachment, as kubelets and controllers tell of it.
func (a *attacher) note(ctx context.Context, attachment *storagev1.VolumeAttachment, field string, failed error) error {
	message := map[string]any{"message": status.Convert(failed).Message(), "time": metav1.NewTime(a.clock.Now())}
	return a.patch(ctx, attachment, map[string]any{"status": map[string]any{"attached": field == "detachError",
		field: message}}, "status")
}

func (a *attacher) patch(ctx context.Context, attachment *storagev1.VolumeAttachment, patch any,
	subresources ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = a.objects.StorageV1().VolumeAttachments().Patch(ctx, attachment.Name, types.MergePatchType, data,
		metav1.PatchOptions{}, subresources...)
	return ignoreGone(err)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
