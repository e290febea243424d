package core

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/internal/resources"
)

// renamedLabels are labels of nodes that have another name since they are stable.
var renamedLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
}

// ValidateVolumeUpdate checks a change, where the data is stays, and most of the volume, which upstream has checked
// before.
func ValidateVolumeUpdate(new, old *corev1.PersistentVolume) field.ErrorList {
	errs := validateVolume(new, old)
	is, was := new.Spec.PersistentVolumeSource.DeepCopy(), old.Spec.PersistentVolumeSource.DeepCopy()
	if is.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		is.CSI.ControllerExpandSecretRef = nil // may be added
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v",
				diff.Diff(checks.Unversioned(was), checks.Unversioned(is)))))
	}
	errs = append(errs, validation.ValidateImmutableField(new.Spec.VolumeMode, old.Spec.VolumeMode,
		field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil && !sameNodes(new.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), checks.Unversioned(new.Spec.NodeAffinity),
			"field is immutable, except for updating from beta label to GA"))
	}
	if old.Spec.VolumeAttributesClassName != nil && new.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"),
			"update from non-nil value to nil is forbidden"))
	}
	return errs
}

// sameNodes reports whether a changed affinity chooses the nodes that the old one chose, by other names of labels.
func sameNodes(new, old *corev1.VolumeNodeAffinity) bool {
	old = old.DeepCopy()
	if new == nil || new.Required == nil || old.Required == nil ||
		len(new.Required.NodeSelectorTerms) != len(old.Required.NodeSelectorTerms) {
		return apiequality.Semantic.DeepEqual(new, old)
	}
	for i := range old.Required.NodeSelectorTerms {
		is, was := new.Required.NodeSelectorTerms[i], &old.Required.NodeSelectorTerms[i]
		renameLabels(is.MatchExpressions, was.MatchExpressions)
		renameLabels(is.MatchFields, was.MatchFields)
	}
	return apiequality.Semantic.DeepEqual(new, old)
}

// renameLabels gives old requirements the new names that is uses.
func renameLabels(is, was []corev1.NodeSelectorRequirement) {
	for i := range was[:min(len(is), len(was))] {
		if renamedLabels[was[i].Key] == is[i].Key {
			was[i].Key = is[i].Key
		}
	}
}

// ValidateClaim checks a persistent volume claim.
func ValidateClaim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	return podspec.ClaimSpec(&c.Spec, field.NewPath("spec"))
}

// ValidateClaimUpdate checks a change: a claim may be bound, and a bound one may grow and change its class of
// attributes.
func ValidateClaimUpdate(new, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := podspec.ClaimSpecUpdate(&new.Spec, &old.Spec, field.NewPath("spec"))
	path := field.NewPath("spec")
	storage := path.Child("resources", "requests", "storage")
	is, was := new.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = is.VolumeName
	}
	more, settled := settleClass(new, old)
	errs = append(errs, more...)
	if settled {
		is.StorageClassName = was.StorageClassName
	}
	size, before := new.Spec.Resources.Requests[corev1.ResourceStorage],
		old.Spec.Resources.Requests[corev1.ResourceStorage]
	if new.Status.Phase == corev1.ClaimBound {
		if is.Resources.Requests != nil {
			is.Resources.Requests[corev1.ResourceStorage] = before
		}
		is.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v",
			diff.Diff(checks.Unversioned(was), checks.Unversioned(is)))))
	}
	if has := old.Status.Capacity[corev1.ResourceStorage]; size.Cmp(before) < 0 && size.Cmp(has) <= 0 {
		errs = append(errs, field.Forbidden(storage, "field can not be less than status.capacity"))
	}
	errs = append(errs, validation.ValidateImmutableField(new.Spec.VolumeMode, old.Spec.VolumeMode,
		field.NewPath("volumeMode"))...)
	return append(errs, validateClassChange(new, old, path.Child("volumeAttributesClassName"))...)
}

// settleClass reports whether a change only says in the field what class an annotation said, or a default is to be.
func settleClass(new, old *corev1.PersistentVolumeClaim) (field.ErrorList, bool) {
	const beta = corev1.BetaStorageClassAnnotation
	was, had := old.Annotations[beta]
	is, has := new.Annotations[beta]
	first := old.Spec.StorageClassName == nil && new.Spec.StorageClassName != nil
	same := first && *new.Spec.StorageClassName == was
	if had && same && (!has || is == was) {
		return nil, true
	}
	var errs field.ErrorList
	if is != was {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations", beta), is, "field is immutable"))
	}
	return errs, first && (!had || same)
}

// validateClassChange keeps a class of attributes that was applied from being taken away.
func validateClassChange(new, old *corev1.PersistentVolumeClaim, at *field.Path) field.ErrorList {
	is := new.Spec.VolumeAttributesClassName
	if old.Status.CurrentVolumeAttributesClassName == nil || ptr.Equal(is, old.Spec.VolumeAttributesClassName) {
		return nil
	}
	const text = "update to %s is forbidden when status.currentVolumeAttributesClassName is not nil"
	switch {
	case is == nil:
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf(text, "nil"))}
	case *is == "":
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf(text, "empty string"))}
	}
	return nil
}

// resizeStates are those in which the growth of a claim may be.
var resizeStates = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending,
}

// ValidateClaimStatus checks a change of the status.
func ValidateClaimStatus(new, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status")
	amount := func(q resource.Quantity, at *field.Path) field.ErrorList {
		if q.Value() < 0 {
			return field.ErrorList{field.Invalid(at, q.Value(), "must be a valid resource quantity")}
		}
		return nil
	}
	for _, n := range slices.Sorted(maps.Keys(new.Status.Capacity)) {
		errs = append(errs, amount(new.Status.Capacity[n], path.Child("capacity").Key(string(n)))...)
	}
	states := path.Child("allocatedResourceStatuses")
	for _, n := range slices.Sorted(maps.Keys(new.Status.AllocatedResourceStatuses)) {
		errs = append(errs, claimResource(n, states)...)
		if !slices.Contains(resizeStates, new.Status.AllocatedResourceStatuses[n]) {
			errs = append(errs, field.NotSupported(states, n, resizeStates))
		}
	}
	allocated := path.Child("allocatedResources")
	for _, n := range slices.Sorted(maps.Keys(new.Status.AllocatedResources)) {
		q := new.Status.AllocatedResources[n]
		more := claimResource(n, allocated)
		if len(more) == 0 {
			more = amount(q, allocated.Key(string(n)))
		}
		if len(more) == 0 {
			more = podspec.Quantity(corev1.ResourceStorage, q, allocated.Key(string(n)))
		}
		errs = append(errs, more...)
	}
	return errs
}

// claimResource checks the name of what a claim has: storage, or something of another domain.
func claimResource(n corev1.ResourceName, at *field.Path) field.ErrorList {
	errs := checks.Text(string(n), at, utilvalidation.IsQualifiedName)
	if len(errs) == 0 && resources.Native(n) && n != corev1.ResourceStorage {
		errs = append(errs, field.NotSupported(at, string(n), []corev1.ResourceName{corev1.ResourceStorage}))
	}
	return errs
}

// ClaimWarnings tells of what is deprecated, and of amounts that are no whole numbers.
func ClaimWarnings(c, _ *corev1.PersistentVolumeClaim) []string {
	var out []string
	if _, has := c.Annotations[corev1.BetaStorageClassAnnotation]; has {
		out = append(out, fmt.Sprintf(
			"metadata.annotations[%s]: deprecated since v1.8; use \"storageClassName\" attribute instead",
			corev1.BetaStorageClassAnnotation))
	}
	return append(out, podspec.ClaimWarnings(&c.Spec, field.NewPath("spec"))...)
}
