package storage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// Bounds of the parameters of a class.
const (
	maxParameters     = 512
	maxParameterBytes = 256 * 1024
)

// ValidateClass checks a storage class.
func ValidateClass(c *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	if c.Provisioner == "" {
		errs = append(errs, field.Required(field.NewPath("provisioner"), c.Provisioner))
	} else {
		errs = append(errs, checks.Text(strings.ToLower(c.Provisioner), field.NewPath("provisioner"), utilvalidation.IsQualifiedName)...)
	}
	errs = append(errs, parameters(c.Parameters, true, field.NewPath("parameters"))...)
	if p := c.ReclaimPolicy; p != nil && *p != corev1.PersistentVolumeReclaimDelete && *p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimPolicy"), *p,
			[]corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}))
	}
	if c.VolumeBindingMode == nil {
		errs = append(errs, field.Required(field.NewPath("volumeBindingMode"), ""))
	} else {
		errs = append(errs, checks.OneOf(*c.VolumeBindingMode, field.NewPath("volumeBindingMode"),
			storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	}
	return append(errs, topologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func parameters(p map[string]string, allowEmpty bool, at *field.Path) field.ErrorList {
	if !allowEmpty && len(p) == 0 {
		return field.ErrorList{field.Required(at, "must contain at least one key/value pair")}
	}
	var errs field.ErrorList
	if len(p) > maxParameters {
		return field.ErrorList{field.TooLong(at, "", maxParameters)}
	}
	size := 0
	for k, v := range p {
		if k == "" {
			errs = append(errs, field.Invalid(at, k, "field can not be empty."))
		}
		size += len(k) + len(v)
	}
	if size > maxParameterBytes {
		errs = append(errs, field.TooLong(at, "", maxParameterBytes))
	}
	return errs
}

func topologies(list []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range list {
		seen := sets.New[string]()
		for j, r := range t.MatchLabelExpressions {
			at := path.Index(i).Child("matchLabelExpressions").Index(j)
			errs = append(errs, metavalidation.ValidateLabelName(r.Key, at.Child("key"))...)
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), ""))
			}
			values := sets.New[string]()
			for k, v := range r.Values {
				if values.Has(v) {
					errs = append(errs, field.Duplicate(at.Child("values").Index(k), v))
				}
				values.Insert(v)
			}
			if seen.Has(r.Key) {
				errs = append(errs, field.Duplicate(at.Child("key"), r.Key))
			}
			seen.Insert(r.Key)
		}
	}
	return errs
}

// ValidateClassUpdate checks a change: volumes were made by what the class says, so it stays.
func ValidateClassUpdate(new, old *storagev1.StorageClass) field.ErrorList {
	errs := ValidateClass(new)
	if !apiequality.Semantic.DeepEqual(new.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	if new.Provisioner != old.Provisioner {
		errs = append(errs, field.Forbidden(field.NewPath("provisioner"), "updates to provisioner are forbidden."))
	}
	if !apiequality.Semantic.DeepEqual(new.ReclaimPolicy, old.ReclaimPolicy) {
		errs = append(errs, field.Forbidden(field.NewPath("reclaimPolicy"), "updates to reclaimPolicy are forbidden."))
	}
	return append(errs, validation.ValidateImmutableField(new.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}

// ValidateAttachment checks a volume attachment.
func ValidateAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	at := field.NewPath("spec")
	errs := podspec.DriverName(a.Spec.Attacher, at.Child("attacher"))
	source := at.Child("source")
	inline, name := a.Spec.Source.InlineVolumeSpec, a.Spec.Source.PersistentVolumeName
	switch {
	case inline == nil && name == nil:
		errs = append(errs, field.Required(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case inline != nil && name != nil:
		errs = append(errs, field.Forbidden(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case name != nil && *name == "":
		errs = append(errs, field.Required(source.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	}
	return append(errs, checks.Text(a.Spec.NodeName, at.Child("nodeName"), checks.Subdomain)...)
}

// ValidateAttachmentUpdate checks a change: the spec stays.
func ValidateAttachmentUpdate(new, old *storagev1.VolumeAttachment) field.ErrorList {
	errs := ValidateAttachment(new)
	if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) {
		errs = append(errs, field.Invalid(field.NewPath("spec"), new.Spec, "field is immutable"))
	}
	return errs
}

// ValidateDriver checks a CSI driver.
func ValidateDriver(d *storagev1.CSIDriver) field.ErrorList {
	errs := podspec.DriverName(d.Name, field.NewPath("name"))
	at, s := field.NewPath("spec"), &d.Spec
	for name, set := range map[string]bool{"attachRequired": s.AttachRequired != nil, "podInfoOnMount": s.PodInfoOnMount != nil, "storageCapacity": s.StorageCapacity != nil} {
		if !set {
			errs = append(errs, field.Required(at.Child(name), ""))
		}
	}
	if p := s.FSGroupPolicy; p != nil {
		errs = append(errs, checks.OneOf(*p, at.Child("fsGroupPolicy"), storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy,
			storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)...)
	}
	for _, m := range s.VolumeLifecycleModes {
		errs = append(errs, checks.OneOf(m, at.Child("volumeLifecycleModes"), storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent)...)
	}
	const minLife, maxLife = 10 * 60, 1 << 32
	audiences := sets.New[string]()
	for i, t := range s.TokenRequests {
		p := at.Child("tokenRequests").Index(i)
		if audiences.Has(t.Audience) {
			errs = append(errs, field.Duplicate(p.Child("audience"), t.Audience))
		}
		audiences.Insert(t.Audience)
		if e := t.ExpirationSeconds; e != nil && *e < minLife {
			errs = append(errs, field.Invalid(p.Child("expirationSeconds"), *e, "may not specify a duration less than 10 minutes"))
		} else if e != nil && *e > maxLife {
			errs = append(errs, field.Invalid(p.Child("expirationSeconds"), *e, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}

// ValidateDriverUpdate checks a change: attaching and life cycle stay.
func ValidateDriverUpdate(new, old *storagev1.CSIDriver) field.ErrorList {
	errs := ValidateDriver(new)
	at := field.NewPath("spec")
	errs = append(errs, validation.ValidateImmutableField(new.Spec.AttachRequired, old.Spec.AttachRequired, at.Child("attachedRequired"))...)
	return append(errs, validation.ValidateImmutableField(new.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, at.Child("volumeLifecycleModes"))...)
}

// ValidateNode checks a CSI node.
func ValidateNode(n *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	path := field.NewPath("spec", "drivers")
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], path.Index(i)
		errs = append(errs, podspec.DriverName(d.Name, at.Child("name"))...)
		errs = append(errs, checks.Required(d.NodeID, at.Child("nodeID"))...)
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			errs = append(errs, checks.NonNegative(int64(*d.Allocatable.Count), at.Child("allocatable", "count"))...)
		}
		if names.Has(d.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		names.Insert(d.Name)
		keys := sets.New[string]()
		for _, key := range d.TopologyKeys {
			if keys.Has(key) {
				errs = append(errs, field.Duplicate(at.Child("topologyKeys"), key))
			}
			keys.Insert(key)
			errs = append(errs, checks.Text(key, at.Child("topologyKeys"), utilvalidation.IsQualifiedName)...)
		}
	}
	return errs
}

// ValidateCapacity checks a storage capacity.
func ValidateCapacity(c *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := checks.Text(c.StorageClassName, field.NewPath("storageClassName"), checks.Subdomain)
	errs = append(errs, metavalidation.ValidateLabelSelector(c.NodeTopology, metavalidation.LabelSelectorValidationOptions{}, field.NewPath("nodeTopology"))...)
	if c.Capacity != nil && c.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(), "must be greater than or equal to 0"))
	}
	if c.MaximumVolumeSize != nil && c.MaximumVolumeSize.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("maximumVolumeSize"), c.MaximumVolumeSize.String(), "must be greater than or equal to 0"))
	}
	return errs
}

// ValidateCapacityUpdate checks a change: what the capacity is of stays.
func ValidateCapacityUpdate(new, old *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := ValidateCapacity(new)
	errs = append(errs, validation.ValidateImmutableField(new.NodeTopology, old.NodeTopology, field.NewPath("nodeTopology"))...)
	return append(errs, validation.ValidateImmutableField(new.StorageClassName, old.StorageClassName, field.NewPath("storageClassName"))...)
}

// ValidateAttributes checks a volume attributes class.
func ValidateAttributes(c *storagev1.VolumeAttributesClass) field.ErrorList {
	return append(podspec.DriverName(c.DriverName, field.NewPath("driverName")), parameters(c.Parameters, false, field.NewPath("parameters"))...)
}

// ValidateAttributesUpdate checks a change: the class stays.
func ValidateAttributesUpdate(new, old *storagev1.VolumeAttributesClass) field.ErrorList {
	errs := ValidateAttributes(new)
	if new.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if !apiequality.Semantic.DeepEqual(new.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	return errs
}
