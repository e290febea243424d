package core

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// ValidateVolume checks a persistent volume.
func ValidateVolume(v *corev1.PersistentVolume) field.ErrorList {
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
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	errs = append(errs, validateVolumeSource(s, v.Name, path)...)
	if s.NodeAffinity != nil {
		at := path.Child("nodeAffinity", "required")
		if s.NodeAffinity.Required == nil {
			errs = append(errs, field.Required(at, "must specify required node constraints"))
		} else {
			errs = append(errs, podspec.NodeSelector(s.NodeAffinity.Required, at)...)
		}
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
			errs = append(errs, field.Required(path.Child("csi"), "has to be specified when using volumeAttributesClassName"))
		}
	}
	return errs
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
		errs = append(errs, field.Forbidden(path.Child("persistentVolumeReclaimPolicy"), "may only be Retain in the context of inline volumes"))
	}
	forbid("nodeAffinity", s.NodeAffinity != nil)
	errs = append(errs, validateVolumeSource(s, "", path)...)
	forbid("storageClassName", s.StorageClassName != "")
	if s.VolumeMode != nil && *s.VolumeMode != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(path.Child("volumeMode"), "may not specify volumeMode other than Filesystem in the context of inline volumes"))
	}
	return errs
}

// ValidateVolumeUpdate checks a change: where the data is stays.
func ValidateVolumeUpdate(new, old *corev1.PersistentVolume) field.ErrorList {
	// Upstream checks the whole twice, and says so.
	errs := append(ValidateVolume(new), ValidateVolume(new)...)
	source := field.NewPath("spec", "persistentvolumesource")
	is, was := new.Spec.PersistentVolumeSource.DeepCopy(), old.Spec.PersistentVolumeSource.DeepCopy()
	if is.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		is.CSI.ControllerExpandSecretRef = nil // may be added
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		errs = append(errs, field.Forbidden(source, "spec.persistentvolumesource is immutable after creation"))
	}
	errs = append(errs, validation.ValidateImmutableField(new.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil {
		errs = append(errs, validation.ValidateImmutableField(new.Spec.NodeAffinity, old.Spec.NodeAffinity, field.NewPath("spec", "nodeAffinity"))...)
	}
	return errs
}

// ValidateClaim checks a persistent volume claim.
func ValidateClaim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	return podspec.ClaimSpec(&c.Spec, field.NewPath("spec"))
}

// ValidateClaimUpdate checks a change: a claim may be bound, and a bound one may grow.
func ValidateClaimUpdate(new, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := ValidateClaim(new)
	path := field.NewPath("spec")
	is, was := new.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		is.VolumeName = was.VolumeName
	}
	size, before := is.Resources.Requests[corev1.ResourceStorage], was.Resources.Requests[corev1.ResourceStorage]
	if old.Status.Phase == corev1.ClaimBound && size.Cmp(before) != 0 {
		if size.Cmp(before) < 0 {
			current := old.Status.Capacity[corev1.ResourceStorage]
			if size.Cmp(current) <= 0 {
				errs = append(errs, field.Forbidden(path.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
			}
		}
		is.Resources.Requests[corev1.ResourceStorage] = before
	}
	is.VolumeAttributesClassName = was.VolumeAttributesClassName
	if was.StorageClassName == nil { // a default class may be set later
		is.StorageClassName = nil
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		errs = append(errs, field.Forbidden(path, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	return errs
}
