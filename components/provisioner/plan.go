package provisioner

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// nodeAnnotation names the node whose provisioner made a volume, and removes it.
const nodeAnnotation = "local.quintet.dev/node"

// ours tells whether this provisioner is asked for the claim's volume.
func ours(claim *v1.PersistentVolumeClaim) bool {
	asked := claim.Annotations[storagehelpers.AnnStorageProvisioner]
	if asked == "" {
		asked = claim.Annotations[storagehelpers.AnnBetaStorageProvisioner]
	}
	return asked == Name && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// volumeName is that of the volume for a claim.
func volumeName(claim *v1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// refusal says what of a claim or its class can't be had; "" if everything can.
func refusal(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) string {
	for _, mode := range claim.Spec.AccessModes {
		if mode != v1.ReadWriteOnce && mode != v1.ReadWriteOncePod {
			return fmt.Sprintf("access mode %s: a volume on one node has only ReadWriteOnce and ReadWriteOncePod", mode)
		}
	}
	switch {
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode != v1.PersistentVolumeFilesystem:
		return fmt.Sprintf("volume mode %s: only Filesystem is supported", *claim.Spec.VolumeMode)
	case claim.Spec.Selector != nil:
		return "claim.Spec.Selector is not supported"
	case claim.Spec.DataSource != nil, claim.Spec.DataSourceRef != nil:
		return "a data source is not supported: volumes are made empty"
	case claim.Spec.VolumeAttributesClassName != nil && *claim.Spec.VolumeAttributesClassName != "":
		return "a volume attributes class is not supported"
	}
	for name := range class.Parameters {
		return fmt.Sprintf("storage class %q: parameter %q is not supported", class.Name, name)
	}
	return ""
}

// newVolume returns the volume for a claim, in path on node.
func newVolume(
	claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node *v1.Node, path string,
) *v1.PersistentVolume {
	policy, mode := v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeFilesystem
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	hostname := node.Labels[v1.LabelHostname]
	if hostname == "" {
		hostname = node.Name
	}
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumeName(claim),
			Annotations: map[string]string{storagehelpers.AnnDynamicallyProvisioned: Name, nodeAnnotation: node.Name},
		},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, VolumeMode: &mode, StorageClassName: class.Name,
			MountOptions: class.MountOptions, PersistentVolumeReclaimPolicy: policy,
			Capacity: v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			ClaimRef: &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
				Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn,
					Values: []string{hostname}}}}}}},
		},
	}
	if policy == v1.PersistentVolumeReclaimDelete {
		volume.Finalizers = []string{storagehelpers.PVDeletionProtectionFinalizer}
	}
	return volume
}

// step is what to do about a volume of this provisioner.
type step int

const (
	leave     step = iota
	protect        // add the finalizer, so that it isn't gone before its directory
	unprotect      // remove the finalizer: the directory is to stay
	remove         // remove directory and volume
)

// planVolume decides on a volume; node is the one that this provisioner is of, "" for all.
func planVolume(volume *v1.PersistentVolume, node string) step {
	if volume.Annotations[storagehelpers.AnnDynamicallyProvisioned] != Name ||
		(node != "" && volume.Annotations[nodeAnnotation] != node) {
		return leave
	}
	protected := slices.Contains(volume.Finalizers, storagehelpers.PVDeletionProtectionFinalizer)
	released := volume.Status.Phase == v1.VolumeReleased || volume.Status.Phase == v1.VolumeFailed
	deletes := volume.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete
	switch {
	case !deletes && protected:
		return unprotect
	case deletes && released && (protected || volume.DeletionTimestamp == nil):
		return remove
	case deletes && !protected && volume.DeletionTimestamp == nil:
		return protect
	case deletes && protected && volume.DeletionTimestamp != nil && volume.Spec.ClaimRef == nil:
		return remove // no claim will ever release it
	}
	return leave
}
