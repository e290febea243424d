package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
)

// syncClaim makes the volume of a claim that asks for one on this node.
func (r *run) syncClaim(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	if !ours(claim) {
		return nil
	}
	if _, err := r.volumes.Get(volumeName(claim)); err == nil {
		return nil // it is there, and waits to be bound
	}
	class, err := r.classes.Get(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if err != nil {
		return ignoreGone(err)
	}
	node := claim.Annotations[storagehelpers.AnnSelectedNode]
	why := refusal(claim, class)
	switch {
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		// Which of the nodes would take it?
		why = fmt.Sprintf("volumeBindingMode must be %s: a volume is made on the node of its pod",
			storagev1.VolumeBindingWaitForFirstConsumer)
	case node == "", r.node != "" && node != r.node:
		return nil
	}
	if why != "" {
		r.failed(claim, class, errors.New(why))
		return nil // until claim or class are changed
	}
	r.events.Eventf(claim, v1.EventTypeNormal, "Provisioning",
		"External provisioner is provisioning volume for claim %q", claim.Namespace+"/"+claim.Name)
	if err := r.provision(ctx, claim, class, node); err != nil {
		r.failed(claim, class, err)
		return err
	}
	r.events.Eventf(claim, v1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s",
		volumeName(claim))
	return nil
}

func (r *run) failed(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, why error) {
	r.events.Eventf(claim, v1.EventTypeWarning, "ProvisioningFailed",
		"failed to provision volume with StorageClass %q: %v", class.Name, why)
}

// provision makes directory and volume. Both have names that follow from the claim: to do it twice makes one.
func (r *run) provision(
	ctx context.Context, claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, nodeName string,
) error {
	node, err := r.config.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errors.Join(fmt.Errorf("selected node %q not found", nodeName), r.reschedule(ctx, claim))
	}
	if err != nil {
		return fmt.Errorf("failed to get target node: %w", err)
	}
	name := volumeName(claim)
	if err := r.directories.create(name); err != nil {
		return err
	}
	volume := newVolume(claim, class, node, r.directories.path(name))
	_, err = r.config.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return r.directories.settled(name)
}

// reschedule takes the node off a claim, so that the scheduler chooses another one.
func (r *run) reschedule(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	changed := claim.DeepCopy()
	delete(changed.Annotations, storagehelpers.AnnSelectedNode)
	_, err := r.config.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return ignoreGone(err)
}

// syncVolume removes a volume that is released, and keeps its finalizer as its reclaim policy needs it.
func (r *run) syncVolume(ctx context.Context, name string) error {
	volume, err := r.volumes.Get(name)
	if err != nil {
		return ignoreGone(err)
	}
	volumes := r.config.Client.CoreV1().PersistentVolumes()
	todo := planVolume(volume, r.node)
	if todo == leave {
		return nil
	}
	if todo == remove {
		if err := r.directories.remove(volume); err != nil {
			r.events.Event(volume, v1.EventTypeWarning, "VolumeFailedDelete", err.Error())
			return err
		}
		if err := ignoreGone(volumes.Delete(ctx, name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(volume.UID))})); err != nil {
			return err
		}
		// The deletion has changed it.
		if volume, err = volumes.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return ignoreGone(err)
		}
	}
	changed := volume.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers,
		func(f string) bool { return f == storagehelpers.PVDeletionProtectionFinalizer })
	if todo == protect {
		changed.Finalizers = append(changed.Finalizers, storagehelpers.PVDeletionProtectionFinalizer)
	}
	if slices.Equal(changed.Finalizers, volume.Finalizers) {
		return nil
	}
	_, err = volumes.Update(ctx, changed, metav1.UpdateOptions{})
	return ignoreGone(err)
}

// sweep removes directories that were made for claims that went before their volume was there.
func (r *run) sweep(ctx context.Context) {
	marked, err := r.directories.marked()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to list directories of volumes", "dir", r.directories.root)
		return
	}
	for _, name := range marked {
		if err := r.sweepOne(ctx, name); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to clear up the directory of a volume; retrying", "volume", name)
		}
	}
}

func (r *run) sweepOne(ctx context.Context, name string) error {
	claims, err := r.claims.List(labels.Everything())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(claims, func(c *v1.PersistentVolumeClaim) bool { return volumeName(c) == name }) {
		return nil // it is being made, or will be
	}
	_, err = r.config.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return r.directories.discard(name)
	case err != nil:
		return err
	}
	return r.directories.settled(name)
}
