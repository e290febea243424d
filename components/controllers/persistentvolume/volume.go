package persistentvolume

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// volumePlan is what to do about a volume, in the order of the fields.
type volumePlan struct {
	phase    v1.PersistentVolumePhase // "" leaves it
	message  string
	onChange event // recorded if the phase was another one
	// events are of the volume, claimEvents of its claim.
	events, claimEvents []event
	reclaim             reclaim
	unbind              bool // the volume is released from its claim, and available again
	wakeClaim           bool // the claim is to be decided on
}

// reclaim is what becomes of a released volume.
type reclaim int

const (
	retain        reclaim = iota // it stays, or another component deletes it
	recycle                      // its content is removed by a pod
	deleteByOwner                // it is deleted: what it stands for is not the cluster's to remove
)

// planVolume decides on a volume; claim is the one that it refers to, nil if that is gone
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#lifecycle-of-a-volume-and-claim).
func planVolume(volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) volumePlan {
	ref := volume.Spec.ClaimRef
	switch {
	case ref == nil, ref.UID == "": // unused, or reserved for a claim that has yet to be bound
		return volumePlan{phase: v1.VolumeAvailable}
	case claim == nil || claim.UID != ref.UID:
		return planReleased(volume)
	case claim.Spec.VolumeName == volume.Name:
		return volumePlan{phase: v1.VolumeBound}
	case claim.Spec.VolumeName == "":
		if !storagehelpers.CheckVolumeModeMismatches(&claim.Spec, &volume.Spec) {
			return volumePlan{wakeClaim: true}
		}
		return volumePlan{
			events: []event{warning("VolumeMismatch", fmt.Sprintf(
				"Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.",
				claim.Name))},
			claimEvents: []event{warning("VolumeMismatch", fmt.Sprintf(
				"Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.",
				volume.Name))},
		}
	}
	// The claim got another volume.
	if metav1.HasAnnotation(volume.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned) &&
		volume.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
		return planReleased(volume)
	}
	return volumePlan{unbind: true}
}

// planReleased decides on a volume whose claim is gone. A failure stays visible while it is tried again.
func planReleased(volume *v1.PersistentVolume) volumePlan {
	plan := volumePlan{}
	if volume.Status.Phase != v1.VolumeReleased && volume.Status.Phase != v1.VolumeFailed {
		plan.phase = v1.VolumeReleased
	}
	if volume.Annotations[storagehelpers.AnnMigratedTo] != "" {
		return plan
	}
	failed := func(reason, message string) volumePlan {
		return volumePlan{phase: v1.VolumeFailed, message: message, onChange: warning(reason, message)}
	}
	switch volume.Spec.PersistentVolumeReclaimPolicy {
	case v1.PersistentVolumeReclaimRetain:
	case v1.PersistentVolumeReclaimRecycle:
		if volume.Spec.HostPath == nil && volume.Spec.NFS == nil {
			return failed("VolumeFailedRecycle", "No recycler plugin found for the volume!")
		}
		plan.reclaim = recycle
	case v1.PersistentVolumeReclaimDelete:
		provisioner := volume.Annotations[storagehelpers.AnnDynamicallyProvisioned]
		if provisioner != "" && !strings.HasPrefix(provisioner, inTree) {
			return plan // its provisioner deletes it
		}
		if why := undeletable(volume); why != "" {
			return failed("VolumeFailedDelete", why)
		}
		plan.reclaim = deleteByOwner
	default:
		return failed("VolumeUnknownReclaimPolicy", "Volume has an unrecognized reclaim policy")
	}
	return plan
}

// hostPathScratch is where the directories are that hostPath volumes may be deleted with.
const hostPathScratch = "/tmp/"

// undeletable says why a volume without an external provisioner can't be deleted; "" if it can.
func undeletable(volume *v1.PersistentVolume) string {
	switch {
	case volume.Spec.HostPath == nil:
		return fmt.Sprintf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched",
			volume.Name)
	case len(volume.Spec.HostPath.Path) <= len(hostPathScratch) ||
		!strings.HasPrefix(volume.Spec.HostPath.Path, hostPathScratch):
		return fmt.Sprintf("host_path deleter only supports /tmp/.+ but received provided %s",
			volume.Spec.HostPath.Path)
	}
	return ""
}

// boundClaim returns the claim with the volume's name and the annotations of a complete binding, and whether that
// differs from claim.
func boundClaim(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) (*v1.PersistentVolumeClaim, bool) {
	changed, dirty := claim.DeepCopy(), false
	if claim.Spec.VolumeName != volume.Name {
		changed.Spec.VolumeName, dirty = volume.Name, true
		if !metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBoundByController) {
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, storagehelpers.AnnBoundByController, "yes")
		}
	}
	if !metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted) {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
		dirty = true
	}
	return changed, dirty
}

// claimStatus returns the claim in phase, with what its volume has; volume is nil for a claim without. Capacity is
// taken over only when the claim becomes bound: afterwards it may differ on purpose, while the volume is expanded.
func claimStatus(
	claim *v1.PersistentVolumeClaim, phase v1.PersistentVolumeClaimPhase, volume *v1.PersistentVolume,
) (*v1.PersistentVolumeClaim, bool) {
	changed, dirty := claim.DeepCopy(), claim.Status.Phase != phase
	changed.Status.Phase = phase
	if volume == nil {
		if claim.Status.AccessModes != nil || claim.Status.Capacity != nil {
			changed.Status.AccessModes, changed.Status.Capacity, dirty = nil, nil, true
		}
		return changed, dirty
	}
	if !slices.Equal(claim.Status.AccessModes, volume.Spec.AccessModes) {
		changed.Status.AccessModes, dirty = volume.Spec.AccessModes, true
	}
	if claim.Status.Phase == phase {
		return changed, dirty
	}
	capacity, known := claim.Status.Capacity[v1.ResourceStorage]
	if of := volume.Spec.Capacity[v1.ResourceStorage]; !known || of.Cmp(capacity) != 0 {
		changed.Status.Capacity = volume.Spec.Capacity
	}
	if claim.Status.CurrentVolumeAttributesClassName == nil && volume.Spec.VolumeAttributesClassName != nil {
		changed.Status.CurrentVolumeAttributesClassName = volume.Spec.VolumeAttributesClassName
	}
	return changed, dirty
}

// unbound returns the volume without its claim. One that people reserved for a claim stays so.
func unbound(volume *v1.PersistentVolume) *v1.PersistentVolume {
	changed := volume.DeepCopy()
	if !metav1.HasAnnotation(volume.ObjectMeta, storagehelpers.AnnBoundByController) {
		changed.Spec.ClaimRef.UID = ""
		return changed
	}
	changed.Spec.ClaimRef = nil
	delete(changed.Annotations, storagehelpers.AnnBoundByController)
	return changed
}
