package storage

import (
	"math"

	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/core"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var attachmentParts = api.Parts[*storagev1.VolumeAttachment, storagev1.VolumeAttachmentSpec,
	storagev1.VolumeAttachmentStatus]{
	Spec:   func(a *storagev1.VolumeAttachment) *storagev1.VolumeAttachmentSpec { return &a.Spec },
	Status: func(a *storagev1.VolumeAttachment) *storagev1.VolumeAttachmentStatus { return &a.Status },
}

func volumeAttachments() *api.Kind {
	return api.Define(api.Row[*storagev1.VolumeAttachment]{
		Name: "VolumeAttachment", Resource: "volumeattachments", Cluster: true,
		Default: DefaultAttachment,
		Hub:     storagev1.SchemeGroupVersion,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*storagev1beta1.VolumeAttachment](storagev1beta1.SchemeGroupVersion, DefaultAttachment),
			api.RemovedTwin[*storagev1alpha1.VolumeAttachment, *storagev1.VolumeAttachment](
				storagev1alpha1.SchemeGroupVersion, nil),
		},
		Strategy: api.Strategy[*storagev1.VolumeAttachment]{
			Meta:           api.MetaObjects,
			PrepareCreate:  attachmentParts.PlainCreate,
			PrepareUpdate:  attachmentParts.KeepStatus,
			Validate:       api.OfObject(ValidateAttachment),
			ValidateUpdate: api.OfChange(ValidateAttachmentUpdate),
			ValidateName:   validation.NameIsDNSSubdomain,
			ReturnDeleted:  true,
			Reset:          []string{"status"},
		},
		Status: &api.Strategy[*storagev1.VolumeAttachment]{
			Meta: api.MetaObjects, AnyFinalizer: true,
			PrepareUpdate:  attachmentParts.StatusUpdateOnly,
			ValidateUpdate: api.OfChange(ValidateAttachmentUpdate),
			Reset:          []string{"metadata", "spec"},
		},
		Columns: AttachmentColumns(),
		Row:     AttachmentRow,
	})
}

// AttachmentColumns are the columns of volume attachments.
func AttachmentColumns() show.Columns {
	spec, status := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	return show.Name().
		NameOf("Attacher", spec["attacher"]).
		String("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]).
		String("Node", spec["nodeName"]).
		Of("boolean", "Attached", status["attached"]).
		Age()
}

// AttachmentRow are the cells of a volume attachment.
func AttachmentRow(a *storagev1.VolumeAttachment) []any {
	return []any{a.Name, a.Spec.Attacher, show.Or(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName,
		a.Status.Attached,
		show.Age(a.CreationTimestamp)}
}

// DefaultAttachment sets the defaults of a volume that is part of an attachment.
func DefaultAttachment(a *storagev1.VolumeAttachment) {
	if s := a.Spec.Source.InlineVolumeSpec; s != nil {
		podspec.RoundUp(s.Capacity)
		core.DefaultVolumeSource(&s.PersistentVolumeSource)
	}
}

// ValidateAttachment checks a volume attachment.
func ValidateAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	at := field.NewPath("spec")
	errs := podspec.DriverName(a.Spec.Attacher, at.Child("attacher"))
	source := at.Child("source")
	inline, name := a.Spec.Source.InlineVolumeSpec, a.Spec.Source.PersistentVolumeName
	switch {
	case inline == nil && name == nil:
		errs = append(errs, field.Required(source,
			"must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case inline != nil && name != nil:
		errs = append(errs, field.Forbidden(source,
			"must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case name != nil:
		if *name == "" {
			errs = append(errs, field.Required(source.Child("persistentVolumeName"),
				"must specify non empty persistentVolumeName"))
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
		errs = append(errs, field.Invalid(at.Child("errorCode"), *c,
			utilvalidation.InclusiveRangeError(0, math.MaxInt32)))
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
