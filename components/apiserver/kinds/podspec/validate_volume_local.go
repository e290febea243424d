package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateEmptyDir(e *corev1.EmptyDirVolumeSource, at *field.Path) field.ErrorList {
	if e.SizeLimit != nil && e.SizeLimit.Sign() < 0 {
		return field.ErrorList{field.Forbidden(at.Child("sizeLimit"),
			"SizeLimit field must be a valid resource quantity")}
	}
	return nil
}

// HostPath checks a path on the node.
func HostPath(h *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if h.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	errs := noBackSteps(h.Path, at.Child("path"))
	known := []corev1.HostPathType{corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev,
		corev1.HostPathDirectory,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket}
	if h.Type != nil && !slices.Contains(known, *h.Type) {
		errs = append(errs, field.NotSupported(at.Child("type"), h.Type, known))
	}
	return errs
}

func validateGitRepo(g *corev1.GitRepoVolumeSource, at *field.Path) field.ErrorList {
	return append(required1(g.Repository, at.Child("repository")), descending(g.Directory, at.Child("directory"))...)
}

func validateSecretVolume(s *corev1.SecretVolumeSource, at *field.Path) field.ErrorList {
	errs := required1(s.SecretName, at.Child("secretName"))
	errs = append(errs, mode(s.DefaultMode, at.Child("defaultMode"))...)
	return append(errs, keysToPaths(s.Items, at.Child("items"))...)
}

func validateConfigMapVolume(c *corev1.ConfigMapVolumeSource, at *field.Path) field.ErrorList {
	errs := required1(c.Name, at.Child("name"))
	errs = append(errs, mode(c.DefaultMode, at.Child("defaultMode"))...)
	return append(errs, keysToPaths(c.Items, at.Child("items"))...)
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
		errs = append(errs, keyToPath(&items[i], path.Index(i))...)
	}
	return errs
}

func keyToPath(k *corev1.KeyToPath, at *field.Path) field.ErrorList {
	errs := required1(k.Key, at.Child("key"))
	errs = append(errs, required1(k.Path, at.Child("path"))...)
	errs = append(errs, unreserved(k.Path, at.Child("path"))...)
	return append(errs, mode(k.Mode, at.Child("mode"))...)
}

func validateDownward(d *corev1.DownwardAPIVolumeSource, at *field.Path) field.ErrorList {
	errs := mode(d.DefaultMode, at.Child("defaultMode"))
	for i := range d.Items {
		errs = append(errs, downwardFile(&d.Items[i], at)...)
	}
	return errs
}

// downwardFile checks a file of the downward API. at is the volume or projection: upstream doesn't tell which file it
// is.
func downwardFile(f *corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	errs := required1(f.Path, at.Child("path"))
	errs = append(errs, unreserved(f.Path, at.Child("path"))...)
	switch {
	case f.FieldRef != nil:
		errs = append(errs, validateFieldRef(f.FieldRef, volumeFields, at.Child("fieldRef"))...)
		if f.ResourceFieldRef != nil {
			errs = append(errs, field.Invalid(at, "resource",
				"fieldRef and resourceFieldRef can not be specified simultaneously"))
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

// projection checks the sources of a projected volume, which must not write the same file twice.
type projection struct {
	path  *field.Path
	old   *oldState
	files map[string]bool
	errs  field.ErrorList
}

func validateProjected(p *corev1.ProjectedVolumeSource, old *oldState, path *field.Path) field.ErrorList {
	v := &projection{path: path, old: old, files: map[string]bool{},
		errs: mode(p.DefaultMode, path.Child("defaultMode"))}
	for i := range p.Sources {
		v.source(&p.Sources[i], path.Child("sources").Index(i))
	}
	return v.errs
}

// source checks one source. Sources of features that are off were dropped before; a source of no type is nothing.
func (v *projection) source(s *corev1.VolumeProjection, at *field.Path) {
	n := 0
	if s.Secret != nil {
		n++
		v.keys(s.Secret.Name, s.Secret.Items, at.Child("secret"))
	}
	if s.ConfigMap != nil {
		n++
		v.keys(s.ConfigMap.Name, s.ConfigMap.Items, at.Child("configMap"))
	}
	if s.DownwardAPI != nil {
		n++
		for i := range s.DownwardAPI.Items {
			f := &s.DownwardAPI.Items[i]
			v.errs = append(v.errs, downwardFile(f, at.Child("downwardAPI"))...)
			v.take(f.Path, f.Path)
		}
	}
	if s.ServiceAccountToken != nil {
		n++
		v.token(s.ServiceAccountToken, at.Child("serviceAccountToken"))
	}
	if s.ClusterTrustBundle != nil {
		n++
		v.trustBundle(s.ClusterTrustBundle, at.Child("clusterTrustBundlePEM")) // upstream's path of it
	}
	if s.PodCertificate != nil {
		n++
		v.certificate(s.PodCertificate, at.Child("podCertificate"))
	}
	if n > 1 {
		v.errs = append(v.errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
	}
}

func (v *projection) keys(name string, items []corev1.KeyToPath, at *field.Path) {
	v.errs = append(v.errs, required1(name, at.Child("name"))...)
	for i := range items {
		v.errs = append(v.errs, keyToPath(&items[i], at.Child("items").Index(i))...)
		v.take(items[i].Path, name)
	}
}

// take notes that a file is written; value is shown if it was so before.
func (v *projection) take(file, value string) {
	if file == "" {
		return
	}
	if v.files[file] {
		v.errs = append(v.errs, field.Invalid(v.path, value, "conflicting duplicate paths"))
	}
	v.files[file] = true
}

func (v *projection) token(t *corev1.ServiceAccountTokenProjection, at *field.Path) {
	if t.ExpirationSeconds != nil {
		if s := *t.ExpirationSeconds; s < minTokenLife {
			v.errs = append(v.errs, field.Invalid(at.Child("expirationSeconds"), s,
				"may not specify a duration less than 10 minutes"))
		} else if s > maxTokenLife {
			v.errs = append(v.errs, field.Invalid(at.Child("expirationSeconds"), s,
				"may not specify a duration larger than 2^32 seconds"))
		}
	}
	v.errs = append(v.errs, required1(t.Path, v.path.Child("path"))...)
	if errs := unreserved(t.Path, v.path.Child("path")); len(errs) > 0 && !v.old.had(badTokenPath) {
		v.errs = append(v.errs, errs...)
	}
}

// TemplateMeta checks the metadata of a template for a claim or a resource claim: only labels and annotations can be
// set.
func TemplateMeta(m *metav1.ObjectMeta, at *field.Path) field.ErrorList {
	errs := validation.ValidateAnnotations(m.Annotations, at.Child("annotations"))
	errs = append(errs, metavalidation.ValidateLabels(m.Labels, at.Child("labels"))...)
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"name", m.Name != ""}, {"generateName", m.GenerateName != ""}, {"namespace", m.Namespace != ""},
		{"selfLink", m.SelfLink != ""}, {"uID", m.UID != ""}, {"resourceVersion", m.ResourceVersion != ""},
		{"generation", m.Generation != 0}, {"creationTimestamp", !m.CreationTimestamp.IsZero()},
		{"deletionTimestamp", m.DeletionTimestamp != nil},
		{"deletionGracePeriodSeconds", m.DeletionGracePeriodSeconds != nil},
		{"ownerReferences", m.OwnerReferences != nil}, {"finalizers", m.Finalizers != nil},
		{"managedFields", m.ManagedFields != nil},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(at.Child(f.name), "cannot be set"))
		}
	}
	return errs
}
