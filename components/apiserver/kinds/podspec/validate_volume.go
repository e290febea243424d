package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateVolumes checks the volumes of a pod and returns them by name.
func validateVolumes(list []corev1.Volume, path *field.Path) (map[string]corev1.VolumeSource, field.ErrorList) {
	var errs field.ErrorList
	byName := map[string]corev1.VolumeSource{}
	for i := range list {
		v, at := &list[i], path.Index(i)
		more := validateSource(&v.VolumeSource, at)
		switch {
		case v.Name == "":
			more = append(more, field.Required(at.Child("name"), ""))
		default:
			for _, msg := range utilvalidation.IsDNS1123Label(v.Name) {
				more = append(more, field.Invalid(at.Child("name"), v.Name, msg))
			}
		}
		if _, taken := byName[v.Name]; taken {
			more = append(more, field.Duplicate(at.Child("name"), v.Name))
		}
		if len(more) == 0 {
			byName[v.Name] = v.VolumeSource
		}
		errs = append(errs, more...)
	}
	return byName, errs
}

// sources collects checks of a union of which exactly one member must be set.
type sources struct {
	at   *field.Path
	n    int
	errs field.ErrorList
}

func (s *sources) add(set bool, name string, check func(at *field.Path) field.ErrorList) {
	switch {
	case !set:
	case s.n > 0:
		s.errs = append(s.errs, field.Forbidden(s.at.Child(name), "may not specify more than 1 volume type"))
	default:
		s.n++
		if check != nil {
			s.errs = append(s.errs, check(s.at.Child(name))...)
		}
	}
}

func validateSource(v *corev1.VolumeSource, path *field.Path) field.ErrorList {
	s := &sources{at: path}
	s.add(v.EmptyDir != nil, "emptyDir", func(at *field.Path) field.ErrorList {
		if l := v.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
			return field.ErrorList{field.Forbidden(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")}
		}
		return nil
	})
	s.add(v.HostPath != nil, "hostPath", func(at *field.Path) field.ErrorList { return HostPath(v.HostPath, at) })
	s.add(v.GitRepo != nil, "gitRepo", func(at *field.Path) field.ErrorList {
		errs := required1(v.GitRepo.Repository, at.Child("repository"))
		return append(errs, descending(v.GitRepo.Directory, at.Child("directory"))...)
	})
	s.add(v.Secret != nil, "secret", func(at *field.Path) field.ErrorList {
		errs := required1(v.Secret.SecretName, at.Child("secretName"))
		errs = append(errs, mode(v.Secret.DefaultMode, at.Child("defaultMode"))...)
		return append(errs, keysToPaths(v.Secret.Items, at.Child("items"))...)
	})
	s.add(v.ConfigMap != nil, "configMap", func(at *field.Path) field.ErrorList {
		errs := required1(v.ConfigMap.Name, at.Child("name"))
		errs = append(errs, mode(v.ConfigMap.DefaultMode, at.Child("defaultMode"))...)
		return append(errs, keysToPaths(v.ConfigMap.Items, at.Child("items"))...)
	})
	s.add(v.PersistentVolumeClaim != nil, "persistentVolumeClaim", func(at *field.Path) field.ErrorList {
		return required1(v.PersistentVolumeClaim.ClaimName, at.Child("claimName"))
	})
	s.add(v.DownwardAPI != nil, "downwardAPI", func(at *field.Path) field.ErrorList {
		errs := mode(v.DownwardAPI.DefaultMode, at.Child("defaultMode"))
		for i := range v.DownwardAPI.Items {
			errs = append(errs, downwardFile(&v.DownwardAPI.Items[i], at)...)
		}
		return errs
	})
	s.add(v.Projected != nil, "projected", func(at *field.Path) field.ErrorList { return validateProjected(v.Projected, at) })
	s.add(v.Image != nil, "image", func(at *field.Path) field.ErrorList {
		errs := required1(v.Image.Reference, at.Child("reference"))
		return append(errs, oneOf(v.Image.PullPolicy, at.Child("pullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	})
	s.add(v.Ephemeral != nil, "ephemeral", func(at *field.Path) field.ErrorList {
		if v.Ephemeral.VolumeClaimTemplate == nil {
			return field.ErrorList{field.Required(at.Child("volumeClaimTemplate"), "")}
		}
		return ClaimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec, at.Child("volumeClaimTemplate", "spec"))
	})
	s.networkSources(v)
	if s.n == 0 {
		s.errs = append(s.errs, field.Required(path, "must specify a volume type"))
	}
	return s.errs
}

func required1(value string, at *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

// HostPath checks a path on the node.
func HostPath(h *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if h.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	errs := noBackSteps(h.Path, at.Child("path"))
	if h.Type != nil {
		known := []corev1.HostPathType{corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
			corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket}
		for _, k := range known {
			if *h.Type == k {
				return errs
			}
		}
		errs = append(errs, field.NotSupported(at.Child("type"), h.Type, known))
	}
	return errs
}

func mode(m *int32, at *field.Path) field.ErrorList {
	if m != nil && (*m > 0o777 || *m < 0) {
		return field.ErrorList{field.Invalid(at, *m, "must be a number between 0 and 0777 (octal), both inclusive")}
	}
	return nil
}

func keysToPaths(items []corev1.KeyToPath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range items {
		k, at := &items[i], path.Index(i)
		errs = append(errs, required1(k.Key, at.Child("key"))...)
		if k.Path == "" {
			errs = append(errs, field.Required(at.Child("path"), ""))
		}
		errs = append(errs, unreserved(k.Path, at.Child("path"))...)
		errs = append(errs, mode(k.Mode, at.Child("mode"))...)
	}
	return errs
}

func downwardFile(f *corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if f.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	}
	errs = append(errs, unreserved(f.Path, at.Child("path"))...)
	switch {
	case f.FieldRef != nil:
		errs = append(errs, validateFieldRef(f.FieldRef, volumeFields, at.Child("fieldRef"))...)
		if f.ResourceFieldRef != nil {
			errs = append(errs, field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case f.ResourceFieldRef != nil:
		errs = append(errs, validateResourceField(f.ResourceFieldRef, at.Child("resourceFieldRef"), true)...)
	default:
		errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
	}
	return append(errs, mode(f.Mode, at.Child("mode"))...)
}

// Bounds of the life of a projected service account token, in seconds.
const (
	minTokenLife = 10 * 60
	maxTokenLife = 1 << 32
)

func validateProjected(p *corev1.ProjectedVolumeSource, path *field.Path) field.ErrorList {
	errs := mode(p.DefaultMode, path.Child("defaultMode"))
	paths := map[string]bool{}
	take := func(file string) {
		if file == "" {
			return
		}
		if paths[file] {
			errs = append(errs, field.Invalid(path, file, "conflicting duplicate paths"))
		}
		paths[file] = true
	}
	for i := range p.Sources {
		src, at := &p.Sources[i], path.Child("sources").Index(i)
		s := &sources{at: at}
		s.add(src.Secret != nil, "secret", func(at *field.Path) field.ErrorList {
			for _, k := range src.Secret.Items {
				take(k.Path)
			}
			return append(required1(src.Secret.Name, at.Child("name")), keysToPaths(src.Secret.Items, at.Child("items"))...)
		})
		s.add(src.ConfigMap != nil, "configMap", func(at *field.Path) field.ErrorList {
			for _, k := range src.ConfigMap.Items {
				take(k.Path)
			}
			return append(required1(src.ConfigMap.Name, at.Child("name")), keysToPaths(src.ConfigMap.Items, at.Child("items"))...)
		})
		s.add(src.DownwardAPI != nil, "downwardAPI", func(at *field.Path) field.ErrorList {
			var errs field.ErrorList
			for j := range src.DownwardAPI.Items {
				take(src.DownwardAPI.Items[j].Path)
				errs = append(errs, downwardFile(&src.DownwardAPI.Items[j], at)...)
			}
			return errs
		})
		s.add(src.ServiceAccountToken != nil, "serviceAccountToken", func(at *field.Path) field.ErrorList {
			take(src.ServiceAccountToken.Path)
			return validateToken(src.ServiceAccountToken, at)
		})
		s.add(src.ClusterTrustBundle != nil, "clusterTrustBundle", func(at *field.Path) field.ErrorList {
			take(src.ClusterTrustBundle.Path)
			return validateTrustBundle(src.ClusterTrustBundle, at)
		})
		s.add(src.PodCertificate != nil, "podCertificate", nil)
		if s.n == 0 {
			s.errs = append(s.errs, field.Required(at, "must specify a volume type"))
		}
		errs = append(errs, s.errs...)
	}
	return errs
}

func validateToken(t *corev1.ServiceAccountTokenProjection, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.ExpirationSeconds != nil {
		if s := *t.ExpirationSeconds; s < minTokenLife {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), s, "may not specify a duration less than 10 minutes"))
		} else if s > maxTokenLife {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), s, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	if t.Path == "" {
		return append(errs, field.Required(at.Child("path"), ""))
	}
	return append(errs, unreserved(t.Path, at.Child("path"))...)
}

func validateTrustBundle(b *corev1.ClusterTrustBundleProjection, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	byName, bySigner := b.Name != nil, b.SignerName != nil
	switch {
	case byName && bySigner:
		errs = append(errs, field.Invalid(at, b, "only one of name and signerName may be used"))
	case !byName && !bySigner:
		errs = append(errs, field.Required(at, "either name or signerName must be specified"))
	case byName && *b.Name == "":
		errs = append(errs, field.Required(at.Child("name"), "must be a valid object name"))
	case byName && b.LabelSelector != nil:
		errs = append(errs, field.Invalid(at.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
	}
	errs = append(errs, selector(b.LabelSelector, at.Child("labelSelector"))...)
	if b.Path == "" {
		return append(errs, field.Required(at.Child("path"), ""))
	}
	return append(errs, unreserved(b.Path, at.Child("path"))...)
}

// ClaimSpec checks the spec of a persistent volume claim.
func ClaimSpec(s *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	errs = append(errs, selector(s.Selector, path.Child("selector"))...)
	errs = append(errs, AccessModes(s.AccessModes, path.Child("accessModes"))...)
	storage, ok := s.Resources.Requests[corev1.ResourceStorage]
	at := path.Child("resources").Key(string(corev1.ResourceStorage))
	if !ok {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, PositiveQuantity(corev1.ResourceStorage, storage, at)...)
	}
	if c := s.StorageClassName; c != nil && *c != "" {
		for _, msg := range utilvalidation.IsDNS1123Subdomain(*c) {
			errs = append(errs, field.Invalid(path.Child("storageClassName"), *c, msg))
		}
	}
	if m := s.VolumeMode; m != nil && *m != corev1.PersistentVolumeBlock && *m != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.NotSupported(path.Child("volumeMode"), *m, []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}))
	}
	if d := s.DataSource; d != nil {
		errs = append(errs, required1(d.Name, path.Child("dataSource", "name"))...)
		errs = append(errs, required1(d.Kind, path.Child("dataSource", "kind"))...)
		if (d.APIGroup == nil || *d.APIGroup == "") && d.Kind != "PersistentVolumeClaim" {
			errs = append(errs, field.Invalid(path.Child("dataSource"), d.Kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
		}
	}
	if d := s.DataSourceRef; d != nil {
		errs = append(errs, required1(d.Name, path.Child("dataSourceRef", "name"))...)
		errs = append(errs, required1(d.Kind, path.Child("dataSourceRef", "kind"))...)
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
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("may not use %s with other access modes", corev1.ReadWriteOncePod)))
	}
	return errs
}
