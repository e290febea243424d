package persistentvolume

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

// waitingPods returns the names of the pods that use the claim, haven't ended and have no node yet.
func waitingPods(all []*v1.Pod, claim string) []string {
	var names []string
	for _, pod := range all {
		if pod.Spec.NodeName == "" && !pods.Ended(pod) && usesClaim(pod, claim) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

func usesClaim(pod *v1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == claim,
			volume.Ephemeral != nil && ephemeral.VolumeClaimName(pod, volume) == claim:
			return true
		}
	}
	return false
}

func (c *Controller) record(object runtime.Object, e event) {
	if e.reason != "" {
		c.env.Events.Event(object, e.kind, e.reason, e.message)
	}
}

func (c *Controller) syncClaim(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	view, err := c.observe(claim)
	if err != nil {
		return err
	}
	plan, err := planClaim(claim, view)
	if err != nil {
		return err
	}
	switch {
	case plan.bind != nil:
		return c.bind(ctx, plan.bind, claim)
	case plan.class != "":
		changed := claim.DeepCopy()
		changed.Spec.StorageClassName = &plan.class
		_, err := c.updateClaim(ctx, changed)
		return err // the update is an event, which is decided on
	case plan.provisioner != "":
		c.operations.begin(claimKey(claim), plan.provisioner, c.env.Clock.Now())
		if claim, err = c.setProvisioner(ctx, claim, plan.provisioner); err != nil {
			return err
		}
	}
	for _, e := range plan.events {
		c.record(claim, e)
	}
	if plan.phase == "" {
		return nil
	}
	changedPhase := claim.Status.Phase != plan.phase
	if claim, err = c.writeClaimStatus(ctx, claim, plan.phase, nil); err != nil {
		return err
	}
	if changedPhase {
		c.record(claim, plan.onChange)
	}
	return nil
}

// setProvisioner tells the provisioner that it is asked, by the annotations of today and before.
func (c *Controller) setProvisioner(
	ctx context.Context, claim *v1.PersistentVolumeClaim, provisioner string,
) (*v1.PersistentVolumeClaim, error) {
	if claim.Annotations[storagehelpers.AnnStorageProvisioner] == provisioner {
		return claim, nil
	}
	changed := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, storagehelpers.AnnBetaStorageProvisioner, provisioner)
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, storagehelpers.AnnStorageProvisioner, provisioner)
	return c.updateClaim(ctx, changed)
}

// bind makes volume and claim one: the volume refers to the claim and is Bound, then so with the claim. What is done
// already is left out, so that a binding that was broken off is completed.
func (c *Controller) bind(ctx context.Context, volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) error {
	changed, dirty, err := storagehelpers.GetBindVolumeToClaim(volume, claim)
	if err != nil {
		return err
	}
	if dirty {
		if volume, err = c.updateVolume(ctx, changed); err != nil {
			return err
		}
	}
	if volume, err = c.writeVolumeStatus(ctx, volume, v1.VolumeBound, ""); err != nil {
		return err
	}
	if changed, dirty := boundClaim(claim, volume); dirty {
		if claim, err = c.updateClaim(ctx, changed); err != nil {
			return err
		}
	}
	if _, err = c.writeClaimStatus(ctx, claim, v1.ClaimBound, volume); err == nil {
		c.operations.end(claimKey(claim), "provision", c.env.Clock.Now())
	}
	return err
}

func (c *Controller) syncVolume(ctx context.Context, volume *v1.PersistentVolume) error {
	claim, err := c.claimOf(ctx, volume)
	if err != nil {
		return err
	}
	plan := planVolume(volume, claim)
	if plan.phase != "" && plan.phase != volume.Status.Phase {
		if volume, err = c.writeVolumeStatus(ctx, volume, plan.phase, plan.message); err != nil {
			return err
		}
		c.record(volume, plan.onChange)
	}
	for _, e := range plan.events {
		c.record(volume, e)
	}
	for _, e := range plan.claimEvents {
		c.record(claim, e)
	}
	if plan.wakeClaim {
		c.loop.Add(claimKey(claim))
	}
	if plan.unbind {
		return c.unbind(ctx, volume)
	}
	switch plan.reclaim {
	case recycle:
		return c.recycle(ctx, volume)
	case deleteByOwner:
		return runner.IgnoreGone(c.env.Client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(volume.UID))}))
	}
	return nil
}

// claimOf returns the claim that the volume refers to, nil if it is gone. Before a volume counts as released, the API
// server is asked: the claim may be newer than what the informer has.
func (c *Controller) claimOf(ctx context.Context, volume *v1.PersistentVolume) (*v1.PersistentVolumeClaim, error) {
	ref := volume.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return nil, nil
	}
	claim, err := c.claims.PersistentVolumeClaims(ref.Namespace).Get(ref.Name)
	if err == nil && claim.UID == ref.UID {
		return claim, nil
	}
	if volume.Status.Phase == v1.VolumeReleased || volume.Status.Phase == v1.VolumeFailed {
		return nil, nil // it was asked before
	}
	claim, err = c.env.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("claim %s/%s of volume %s: %w", ref.Namespace, ref.Name, volume.Name, err)
	}
	return claim, nil
}

func (c *Controller) unbind(ctx context.Context, volume *v1.PersistentVolume) error {
	volume, err := c.updateVolume(ctx, unbound(volume))
	if err != nil {
		return err
	}
	_, err = c.writeVolumeStatus(ctx, volume, v1.VolumeAvailable, "")
	return err
}

func (c *Controller) updateVolume(ctx context.Context, volume *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	updated, err := c.env.Client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("volume %s: %w", volume.Name, err)
	}
	return updated, nil
}

func (c *Controller) writeVolumeStatus(
	ctx context.Context, volume *v1.PersistentVolume, phase v1.PersistentVolumePhase, message string,
) (*v1.PersistentVolume, error) {
	if volume.Status.Phase == phase {
		return volume, nil
	}
	changed := volume.DeepCopy()
	changed.Status.Phase, changed.Status.Message = phase, message
	updated, err := c.env.Client.CoreV1().PersistentVolumes().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("status of volume %s: %w", volume.Name, err)
	}
	return updated, nil
}

func (c *Controller) updateClaim(
	ctx context.Context, claim *v1.PersistentVolumeClaim,
) (*v1.PersistentVolumeClaim, error) {
	updated, err := c.env.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim,
		metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", runner.Key(claim), err)
	}
	return updated, nil
}

func (c *Controller) writeClaimStatus(
	ctx context.Context, claim *v1.PersistentVolumeClaim, phase v1.PersistentVolumeClaimPhase, volume *v1.PersistentVolume,
) (*v1.PersistentVolumeClaim, error) {
	changed, dirty := claimStatus(claim, phase, volume)
	if !dirty {
		return claim, nil
	}
	updated, err := c.env.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, changed,
		metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("status of claim %s: %w", runner.Key(claim), err)
	}
	return updated, nil
}
