package storage

import (
	"math"
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
	"quintet.dev/quintet/components/apiserver/kinds/core"
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
	if p := c.ReclaimPolicy; p != nil && *p != "" && *p != corev1.PersistentVolumeReclaimDelete && *p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimPolicy"), *p,
			[]corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}))
	}
	if c.VolumeBindingMode == nil {
		errs = append(errs, field.Required(field.NewPath("volumeBindingMode"), ""))
	} else {
		errs = append(errs, checks.In(*c.VolumeBindingMode, field.NewPath("volumeBindingMode"),
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

// DefaultAttachment sets the defaults of a volume that is part of an attachment.
func DefaultAttachment(a *storagev1.VolumeAttachment) {
	if s := a.Spec.Source.InlineVolumeSpec; s != nil {
		podspec.RoundUp(s.Capacity)
		core.DefaultVolumeSource(&s.PersistentVolumeSource)
	}
}

func topologies(list []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range list {
		expressions := path.Index(i).Child("matchLabelExpressions")
		errs = append(errs, topologyKeys(t.MatchLabelExpressions, expressions)...)
		for _, o := range list[:i] {
			if equalTopology(o, t) {
				errs = append(errs, field.Duplicate(expressions, ""))
			}
		}
		if len(t.MatchLabelExpressions) == 0 { // it is the same as any
			for range list {
				errs = append(errs, field.Duplicate(expressions, ""))
			}
		}
	}
	return errs
}

func topologyKeys(list []corev1.TopologySelectorLabelRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for j, r := range list {
		at := path.Index(j)
		values := sets.New[string]()
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(at.Child("values"), ""))
		}
		for k, v := range r.Values {
			if values.Has(v) {
				errs = append(errs, field.Duplicate(at.Child("values").Index(k), v))
			}
			values.Insert(v)
		}
		errs = append(errs, metavalidation.ValidateLabelName(r.Key, at.Child("key"))...)
		if seen.Has(r.Key) {
			errs = append(errs, field.Duplicate(at.Child("key"), r.Key))
		}
		seen.Insert(r.Key)
	}
	return errs
}

// equalTopology reports whether two terms ask for the same values of the same keys, in whatever order.
func equalTopology(a, b corev1.TopologySelectorTerm) bool {
	asked := func(t corev1.TopologySelectorTerm) map[string]sets.Set[string] {
		out := map[string]sets.Set[string]{}
		for _, r := range t.MatchLabelExpressions {
			out[r.Key] = sets.New(r.Values...)
		}
		return out
	}
	return apiequality.Semantic.DeepEqual(asked(a), asked(b))
}

// ValidateClassChange checks a change alone: volumes were made by what the class says, so it stays.
func ValidateClassChange(new, old *storagev1.StorageClass) field.ErrorList {
	errs := validation.ValidateImmutableField(new.Parameters, old.Parameters, field.NewPath("parameters"))
	errs = append(errs, validation.ValidateImmutableField(new.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, validation.ValidateImmutableField(new.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
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
	case name != nil:
		if *name == "" {
			errs = append(errs, field.Required(source.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
		}
	default:
		errs = append(errs, core.InlineVolume(inline, source.Child("inlineVolumeSpec"))...)
	}
	errs = append(errs, checks.Text(a.Spec.NodeName, at.Child("nodeName"), checks.Subdomain)...)
	errs = append(errs, validateAttachmentStatus(&a.Status)...)
	if name != nil {
		errs = append(errs, checks.Text(*name, source.Child("persistentVolumeName"), checks.Subdomain)...)
	}
	return errs
}

// maxMetadata bounds, in bytes, what drivers write into the status.
const maxMetadata = 256 * 1024

func validateAttachmentStatus(s *storagev1.VolumeAttachmentStatus) field.ErrorList {
	var errs field.ErrorList
	at, size := field.NewPath("status"), 0
	for k, v := range s.AttachmentMetadata {
		size += len(k) + len(v)
	}
	if size > maxMetadata {
		errs = append(errs, field.TooLong(at.Child("attachmentMetadata"), "", maxMetadata))
	}
	errs = append(errs, validateError(s.AttachError, at.Child("attachError"))...)
	return append(errs, validateError(s.DetachError, at.Child("detachError"))...)
}

func validateError(e *storagev1.VolumeError, at *field.Path) field.ErrorList {
	const maxMessage = 1024
	var errs field.ErrorList
	if e == nil {
		return nil
	}
	if len(e.Message) > maxMessage {
		errs = append(errs, field.TooLong(at.Child("message"), "", maxMetadata)) // upstream, too, tells the other bound
	}
	if c := e.ErrorCode; c != nil && *c < 0 {
		errs = append(errs, field.Invalid(at.Child("errorCode"), *c, utilvalidation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return errs
}

// ValidateAttachmentUpdate checks a change: the spec stays.
func ValidateAttachmentUpdate(new, old *storagev1.VolumeAttachment) field.ErrorList {
	errs := ValidateAttachment(new)
	if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) {
		errs = append(errs, field.Invalid(field.NewPath("spec"), checks.Unversioned(new.Spec), "field is immutable"))
	}
	return errs
}

// ValidateDriver checks a CSI driver.
func ValidateDriver(d *storagev1.CSIDriver) field.ErrorList {
	at, s := field.NewPath("spec"), &d.Spec
	var errs field.ErrorList
	if p := s.FSGroupPolicy; p != nil {
		errs = append(errs, checks.In(*p, at.Child("fsGroupPolicy"), storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy,
			storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)...)
	}
	const minLife, maxLife = 10 * 60, 1 << 32
	audiences := sets.New[string]()
	for i, t := range s.TokenRequests {
		p := at.Child("tokenRequests").Index(i)
		if audiences.Has(t.Audience) {
			errs = append(errs, field.Duplicate(p.Child("audience"), t.Audience))
			continue
		}
		audiences.Insert(t.Audience)
		if e := t.ExpirationSeconds; e != nil && *e < minLife {
			errs = append(errs, field.Invalid(p.Child("expirationSeconds"), *e, "may not specify a duration less than 10 minutes"))
		} else if e != nil && *e > maxLife {
			errs = append(errs, field.Invalid(p.Child("expirationSeconds"), *e, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	for _, m := range s.VolumeLifecycleModes {
		errs = append(errs, checks.In(m, at.Child("volumeLifecycleModes"), storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)...)
	}
	const minPeriod = 10
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < minPeriod {
		errs = append(errs, field.Invalid(at.Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds"))
	}
	if b := s.ServiceAccountTokenInSecrets; b != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(at.Child("serviceAccountTokenInSecrets"), *b, "serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return errs
}

// DriverWarnings tell where a driver may get tokens in a place where they are logged. old is nil on create.
func DriverWarnings(new, old *storagev1.CSIDriver) []string {
	if len(new.Spec.TokenRequests) == 0 || new.Spec.ServiceAccountTokenInSecrets != nil ||
		old != nil && apiequality.Semantic.DeepEqual(new.Spec.TokenRequests, old.Spec.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}

// ValidateDriverUpdate checks a change: attaching and life cycle stay.
func ValidateDriverUpdate(new, old *storagev1.CSIDriver) field.ErrorList {
	errs := ValidateDriver(new)
	at := field.NewPath("spec")
	errs = append(errs, validation.ValidateImmutableField(new.Spec.AttachRequired, old.Spec.AttachRequired, at.Child("attachedRequired"))...)
	return append(errs, validation.ValidateImmutableField(new.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, at.Child("volumeLifecycleModes"))...)
}

// maxNodeID bounds what a driver calls a node.
const maxNodeID = 256

// ValidateNode checks a CSI node.
func ValidateNode(n *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	path := field.NewPath("spec", "drivers")
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], path.Index(i)
		errs = append(errs, podspec.DriverName(d.Name, at.Child("name"))...)
		errs = append(errs, checks.Required(d.NodeID, at.Child("nodeID"))...)
		if len(d.NodeID) > maxNodeID {
			errs = append(errs, field.Invalid(at.Child("nodeID"), d.NodeID, "must be 256 characters or less"))
		}
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			errs = append(errs, checks.NonNegative(int64(*d.Allocatable.Count), at.Child("allocatable", "count"))...)
		}
		if names.Has(d.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		names.Insert(d.Name)
		keys := sets.New[string]()
		for _, key := range d.TopologyKeys {
			errs = append(errs, checks.Required(key, at)...)
			if keys.Has(key) {
				errs = append(errs, field.Duplicate(at, key))
			}
			keys.Insert(key)
			errs = append(errs, checks.Text(key, at, utilvalidation.IsQualifiedName)...)
		}
	}
	return errs
}

// ValidateNodeUpdate checks a change: of what a driver says of a node, only how many volumes fit may change.
func ValidateNodeUpdate(new, old *storagev1.CSINode) field.ErrorList {
	errs := ValidateNode(new)
	for _, was := range old.Spec.Drivers {
		for _, is := range new.Spec.Drivers {
			was.Allocatable, is.Allocatable = nil, nil
			if is.Name == was.Name && !apiequality.Semantic.DeepEqual(is, was) {
				errs = append(errs, field.Invalid(field.NewPath("spec", "drivers"), checks.Unversioned(is), "field is immutable"))
			}
		}
	}
	return errs
}

// ValidateCapacity checks a storage capacity.
func ValidateCapacity(c *storagev1.CSIStorageCapacity) field.ErrorList {
	return validateCapacity(c, metavalidation.LabelSelectorValidationOptions{})
}

// ValidateCapacityUpdate checks a changed storage capacity; values in its topology may stay bad.
func ValidateCapacityUpdate(new, old *storagev1.CSIStorageCapacity) field.ErrorList {
	var options metavalidation.LabelSelectorValidationOptions
	options.AllowInvalidLabelValueInSelector = len(metavalidation.ValidateLabelSelector(old.NodeTopology, options, nil)) > 0
	return validateCapacity(new, options)
}

func validateCapacity(c *storagev1.CSIStorageCapacity, options metavalidation.LabelSelectorValidationOptions) field.ErrorList {
	errs := metavalidation.ValidateLabelSelector(c.NodeTopology, options, field.NewPath("nodeTopology"))
	errs = append(errs, checks.Text(c.StorageClassName, field.NewPath("storageClassName"), checks.Subdomain)...)
	if c.Capacity != nil && c.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(), "must be greater than or equal to 0"))
	}
	return errs
}

// ValidateCapacityChange checks a change alone: what the capacity is of stays.
func ValidateCapacityChange(new, old *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := validation.ValidateImmutableField(new.NodeTopology, old.NodeTopology, field.NewPath("nodeTopology"))
	return append(errs, validation.ValidateImmutableField(new.StorageClassName, old.StorageClassName, field.NewPath("storageClassName"))...)
}

// ValidateAttributes checks a volume attributes class.
func ValidateAttributes(c *storagev1.VolumeAttributesClass) field.ErrorList {
	at := field.NewPath("driverName")
	errs := checks.Required(c.DriverName, at)
	if c.DriverName != "" {
		errs = checks.Text(strings.ToLower(c.DriverName), at, utilvalidation.IsQualifiedName)
	}
	return append(errs, parameters(c.Parameters, false, field.NewPath("parameters"))...)
}

// ValidateAttributesChange checks a change alone: the class stays.
func ValidateAttributesChange(new, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	if new.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if !apiequality.Semantic.DeepEqual(new.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	return errs
}
