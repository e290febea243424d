package storage

import (
	"context"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func csiDrivers() *api.Kind {
	return api.Define(api.Row[*storagev1.CSIDriver]{
		Name: "CSIDriver", Resource: "csidrivers", Cluster: true,
		Hub:     storagev1.SchemeGroupVersion,
		Default: DefaultDriver,
		RemovedVersions: []api.Version{api.RemovedTwin[*storagev1beta1.CSIDriver](storagev1beta1.SchemeGroupVersion,
			DefaultDriver)},
		Strategy: api.Strategy[*storagev1.CSIDriver]{
			// off by default
			PrepareCreate: func(_ context.Context,
				d *storagev1.CSIDriver) {
				d.Spec.PreventPodSchedulingIfMissing = nil
			},
			PrepareUpdate: func(_ context.Context, new, old *storagev1.CSIDriver) {
				if old.Spec.PreventPodSchedulingIfMissing == nil {
					new.Spec.PreventPodSchedulingIfMissing = nil
				}
				if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) {
					new.Generation = old.Generation + 1
				}
			},
			Validate:       api.OfObject(ValidateDriver),
			ValidateUpdate: api.OfChange(ValidateDriverUpdate),
			Warnings:       api.OfChange(DriverWarnings),
			ValidateName:   validation.NameIsDNSSubdomain,
			ReturnDeleted:  true,
		},
		Columns: DriverColumns(),
		Row:     DriverRow,
	})
}

// DefaultDriver sets the defaults of a CSI driver.
func DefaultDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	setDefault(&s.AttachRequired, true)
	setDefault(&s.PodInfoOnMount, false)
	setDefault(&s.StorageCapacity, false)
	setDefault(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	setDefault(&s.RequiresRepublish, false)
	setDefault(&s.SELinuxMount, false)
}

// DriverColumns are the columns of CSI drivers.
func DriverColumns() show.Columns {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return show.Name().
		Of("boolean", "AttachRequired", doc["attachRequired"]).
		Of("boolean", "PodInfoOnMount", doc["podInfoOnMount"]).
		Of("boolean", "StorageCapacity", doc["storageCapacity"]).
		String("TokenRequests", doc["tokenRequests"]).
		Of("boolean", "RequiresRepublish", doc["requiresRepublish"]).
		String("Modes", doc["volumeLifecycleModes"]).
		Age()
}

// DriverRow are the cells of a CSI driver.
func DriverRow(d *storagev1.CSIDriver) []any {
	tokens := show.Unset
	if list := d.Spec.TokenRequests; len(list) > 0 {
		audiences := make([]string, len(list))
		for i, t := range list {
			audiences[i] = t.Audience
		}
		tokens = strings.Join(audiences, ",")
	}
	return []any{d.Name, show.Or(d.Spec.AttachRequired, true), show.Or(d.Spec.PodInfoOnMount, false),
		show.Or(d.Spec.StorageCapacity, false), tokens, show.Or(d.Spec.RequiresRepublish, false),
		show.Join(d.Spec.VolumeLifecycleModes, ","), show.Age(d.CreationTimestamp)}
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// ValidateDriver checks a CSI driver.
func ValidateDriver(d *storagev1.CSIDriver) field.ErrorList {
	at, s := field.NewPath("spec"), &d.Spec
	var errs field.ErrorList
	if p := s.FSGroupPolicy; p != nil {
		errs = append(errs, checks.In(*p, at.Child("fsGroupPolicy"), storagev1.FileFSGroupPolicy,
			storagev1.NoneFSGroupPolicy,
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
			errs = append(errs, field.Invalid(p.Child("expirationSeconds"), *e,
				"may not specify a duration less than 10 minutes"))
		} else if e != nil && *e > maxLife {
			errs = append(errs, field.Invalid(p.Child("expirationSeconds"), *e,
				"may not specify a duration larger than 2^32 seconds"))
		}
	}
	for _, m := range s.VolumeLifecycleModes {
		errs = append(errs, checks.In(m, at.Child("volumeLifecycleModes"), storagev1.VolumeLifecyclePersistent,
			storagev1.VolumeLifecycleEphemeral)...)
	}
	const minPeriod = 10
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < minPeriod {
		errs = append(errs, field.Invalid(at.Child("nodeAllocatableUpdatePeriodSeconds"), *n,
			"must be greater than or equal to 10 seconds"))
	}
	if b := s.ServiceAccountTokenInSecrets; b != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(at.Child("serviceAccountTokenInSecrets"), *b,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return errs
}

// DriverWarnings tell where a driver may get tokens in a place where they are logged. old is nil on create.
func DriverWarnings(new, old *storagev1.CSIDriver) []string {
	if len(new.Spec.TokenRequests) == 0 || new.Spec.ServiceAccountTokenInSecrets != nil ||
		old != nil && apiequality.Semantic.DeepEqual(new.Spec.TokenRequests, old.Spec.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to " +
		"prevent possible logging of tokens in volume attributes"}
}

// ValidateDriverUpdate checks a change: attaching and life cycle stay.
func ValidateDriverUpdate(new, old *storagev1.CSIDriver) field.ErrorList {
	errs := ValidateDriver(new)
	at := field.NewPath("spec")
	errs = append(errs, validation.ValidateImmutableField(new.Spec.AttachRequired, old.Spec.AttachRequired,
		at.Child("attachedRequired"))...)
	return append(errs, validation.ValidateImmutableField(new.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes,
		at.Child("volumeLifecycleModes"))...)
}
