package core

import (
	pathpkg "path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// ValidateVolume checks a persistent volume, and what an annotation says of how it is mounted.
func ValidateVolume(v *corev1.PersistentVolume) field.ErrorList {
	return ValidateVolumeAfter(v, nil)
}

// ValidateVolumeAfter does so where a volume was another before: old, nil if it is new.
func ValidateVolumeAfter(v, old *corev1.PersistentVolume) field.ErrorList {
	errs := validateVolume(v, old)
	if _, has := v.Annotations[corev1.MountOptionAnnotation]; has &&
		!takesMountOptions(&v.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations", corev1.MountOptionAnnotation),
			"may not specify mount options for this volume type"))
	}
	return errs
}

// takesMountOptions reports whether a volume of such a source may have the annotation.
func takesMountOptions(s *corev1.PersistentVolumeSource) bool {
	return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.Glusterfs != nil || s.NFS != nil ||
		s.RBD != nil ||
		s.Quobyte != nil || s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil || s.AzureFile != nil ||
		s.VsphereVolume != nil || s.AzureDisk != nil || s.PhotonPersistentDisk != nil
}

func validateVolume(v, old *corev1.PersistentVolume) field.ErrorList {
	path, s := field.NewPath("spec"), &v.Spec
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), ""))
	}
	errs = append(errs, podspec.AccessModes(s.AccessModes, path.Child("accessModes"))...)
	capacity := path.Child("capacity")
	if len(s.Capacity) == 0 {
		errs = append(errs, field.Required(capacity, ""))
	}
	if _, ok := s.Capacity[corev1.ResourceStorage]; !ok || len(s.Capacity) > 1 {
		errs = append(errs, field.NotSupported(capacity, s.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for n, q := range s.Capacity {
		if q.Sign() < 0 {
			errs = append(errs, field.Invalid(capacity.Key(string(n)), q.Value(), "must be a valid resource quantity"))
		}
		if q.Sign() <= 0 {
			errs = append(errs, field.Invalid(capacity.Key(string(n)), q.String(), "must be greater than zero"))
		}
	}
	errs = append(errs, checks.OneOf(s.PersistentVolumeReclaimPolicy, path.Child("persistentVolumeReclaimPolicy"),
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle,
		corev1.PersistentVolumeReclaimRetain)...)
	if s.NodeAffinity != nil {
		at := path.Child("nodeAffinity", "required")
		if s.NodeAffinity.Required == nil {
			errs = append(errs, field.Required(at, "must specify required node constraints"))
		} else {
			errs = append(errs, podspec.NodeSelectorUpdate(s.NodeAffinity.Required, requiredNodes(old), at)...)
		}
	}
	errs = append(errs, validateVolumeSource(s, v.Name, path)...)
	if s.HostPath != nil && pathpkg.Clean(s.HostPath.Path) == "/" &&
		s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(path.Child("persistentVolumeReclaimPolicy"),
			"may not be 'recycle' for a hostPath mount of '/'"))
	}
	if s.StorageClassName != "" {
		errs = append(errs, checks.Text(s.StorageClassName, path.Child("storageClassName"), checks.Subdomain)...)
	}
	if m := s.VolumeMode; m != nil && *m != corev1.PersistentVolumeBlock && *m != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.NotSupported(path.Child("volumeMode"), *m,
			[]corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}))
	}
	if c := s.VolumeAttributesClassName; c != nil {
		at := path.Child("volumeAttributesClassName")
		if *c == "" {
			errs = append(errs, field.Required(at, "an empty string is disallowed"))
		} else {
			errs = append(errs, checks.Text(*c, at, checks.Subdomain)...)
		}
		if s.CSI == nil {
			errs = append(errs, field.Required(path.Child("csi"),
				"has to be specified when using volumeAttributesClassName"))
		}
	}
	return errs
}

// requiredNodes is the selector of the nodes from which a volume can be reached, if there are a volume and a selector.
func requiredNodes(v *corev1.PersistentVolume) *corev1.NodeSelector {
	if v == nil || v.Spec.NodeAffinity == nil {
		return nil
	}
	return v.Spec.NodeAffinity.Required
}

// InlineVolume checks a volume that an attachment describes itself: one of a CSI driver, without what only a volume of
// its own has.
func InlineVolume(s *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	const text = "may not be specified in the context of inline volumes"
	var errs field.ErrorList
	forbid := func(name string, set bool) {
		if set {
			errs = append(errs, field.Forbidden(path.Child(name), text))
		}
	}
	forbid("claimRef", s.ClaimRef != nil)
	forbid("capacity", len(s.Capacity) > 0)
	if s.CSI == nil {
		errs = append(errs, field.Required(path.Child("csi"), "has to be specified in the context of inline volumes"))
	}
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), ""))
	}
	errs = append(errs, podspec.AccessModes(s.AccessModes, path.Child("accessModes"))...)
	if p := s.PersistentVolumeReclaimPolicy; p != "" && p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.Forbidden(path.Child("persistentVolumeReclaimPolicy"),
			"may only be Retain in the context of inline volumes"))
	}
	forbid("nodeAffinity", s.NodeAffinity != nil)
	errs = append(errs, validateVolumeSource(s, "", path)...)
	forbid("storageClassName", s.StorageClassName != "")
	if s.VolumeMode != nil && *s.VolumeMode != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(path.Child("volumeMode"),
			"may not specify volumeMode other than Filesystem in the context of inline volumes"))
	}
	return errs
}
