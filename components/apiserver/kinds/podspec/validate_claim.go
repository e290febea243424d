package podspec

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// ClaimSpec checks the spec of a persistent volume claim.
func ClaimSpec(s *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	return claimSpec(s, nil, path)
}

// ClaimSpecUpdate does the same for a change: the group of a source is not looked at if there was one before, nor are
// the values of a selector in which something was wrong.
func ClaimSpecUpdate(s, old *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	return claimSpec(s, old, path)
}

func claimSpec(s, old *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	more := selector(s.Selector, path.Child("selector"))
	if len(more) > 0 && old != nil && len(selector(old.Selector, nil)) > 0 {
		more = selectorKeys(s.Selector, path.Child("selector"))
	}
	errs = append(errs, more...)
	errs = append(errs, AccessModes(s.AccessModes, path.Child("accessModes"))...)
	storage, ok := s.Resources.Requests[corev1.ResourceStorage]
	at := path.Child("resources").Key(string(corev1.ResourceStorage))
	if !ok {
		errs = append(errs, field.Required(at, ""))
	} else if storage.Sign() <= 0 {
		errs = append(errs, field.Invalid(at, storage.String(), "must be greater than zero"))
	}
	if c := s.StorageClassName; c != nil && *c != "" {
		for _, msg := range utilvalidation.IsDNS1123Subdomain(*c) {
			errs = append(errs, field.Invalid(path.Child("storageClassName"), *c, msg))
		}
	}
	if m := s.VolumeMode; m != nil && *m != corev1.PersistentVolumeBlock && *m != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.NotSupported(path.Child("volumeMode"), *m,
			[]corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}))
	}
	errs = append(errs, dataSources(s, path, !hasGroup(old))...)
	if c := s.VolumeAttributesClassName; c != nil && *c != "" {
		errs = append(errs, problems(*c, path.Child("volumeAttributesClassName"), checks.Subdomain)...)
	}
	return errs
}

// hasGroup reports whether there is a claim whose source is of a group.
func hasGroup(s *corev1.PersistentVolumeClaimSpec) bool {
	return s != nil && (s.DataSource != nil && s.DataSource.APIGroup != nil ||
		s.DataSourceRef != nil && s.DataSourceRef.APIGroup != nil)
}

// dataSources checks where a volume's first content comes from. The two fields say the same, unless the newer one names
// another namespace.
func dataSources(s *corev1.PersistentVolumeClaimSpec, path *field.Path, groups bool) field.ErrorList {
	var errs field.ErrorList
	d, ref := s.DataSource, s.DataSourceRef
	if d != nil {
		errs = append(errs, dataSource(d.APIGroup, d.Kind, d.Name, path.Child("dataSource"), groups)...)
	}
	if ref == nil {
		return errs
	}
	errs = append(errs, dataSource(ref.APIGroup, ref.Kind, ref.Name, path.Child("dataSourceRef"), groups)...)
	if ns := ptr.Deref(ref.Namespace, ""); ns != "" {
		errs = append(errs, problems(ns, path.Child("dataSourceRef", "namespace"), utilvalidation.IsDNS1123Label)...)
	}
	switch whole := json.RawMessage("{}"); {
	case d == nil:
	case ref.Namespace != nil && *ref.Namespace != "":
		errs = append(errs, field.Invalid(path, whole,
			"may not be specified when dataSourceRef.namespace is specified"))
	case !ptr.Equal(d.APIGroup, ref.APIGroup) || d.Kind != ref.Kind || d.Name != ref.Name:
		errs = append(errs, field.Invalid(path, whole, "must match dataSourceRef"))
	}
	return errs
}

func dataSource(group *string, kind, name string, at *field.Path, groups bool) field.ErrorList {
	errs := append(required1(name, at.Child("name")), required1(kind, at.Child("kind"))...)
	if ptr.Deref(group, "") != "" {
		if !groups {
			return errs
		}
		return append(errs, problems(*group, at.Child("apiGroup"), utilvalidation.IsDNS1123Subdomain)...)
	}
	if kind != "PersistentVolumeClaim" {
		errs = append(errs, field.Invalid(at, kind,
			"must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	}
	return errs
}

// AccessModes checks the ways in which a volume may be mounted.
func AccessModes(list []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	once, others := false, false
	for _, m := range list {
		switch m {
		case corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany:
			others = true
		case corev1.ReadWriteOncePod:
			once = true
		default:
			errs = append(errs, field.NotSupported(path, m, []corev1.PersistentVolumeAccessMode{
				corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod}))
		}
	}
	if once && others {
		errs = append(errs, field.Forbidden(path,
			fmt.Sprintf("may not use %s with other access modes", corev1.ReadWriteOncePod)))
	}
	return errs
}
