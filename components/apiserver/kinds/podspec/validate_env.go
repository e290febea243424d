package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	// podFields are all paths of the downward API, by the names that v1 knows.
	podFields = sets.New("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
		"spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName",
		"status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	// envFields are those that an environment variable may show.
	envFields = sets.New("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	// volumeFields are those that a file may show.
	volumeFields = sets.New("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid")

	resourceFields = sets.New("limits.cpu", "limits.memory", "limits.ephemeral-storage",
		"requests.cpu", "requests.memory", "requests.ephemeral-storage")
	cpuDivisors    = sets.New("1m", "1")
	memoryDivisors = sets.New("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
)

func validateEnv(vars []corev1.EnvVar, volumes map[string]corev1.VolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		v, at := &vars[i], path.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			for _, msg := range utilvalidation.IsRelaxedEnvVarName(v.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), v.Name, msg))
			}
		}
		errs = append(errs, validateEnvSource(v, volumes, at.Child("valueFrom"))...)
	}
	return errs
}

func validateEnvSource(v *corev1.EnvVar, volumes map[string]corev1.VolumeSource, at *field.Path) field.ErrorList {
	from := v.ValueFrom
	if from == nil {
		return nil
	}
	var errs field.ErrorList
	sources := 0
	if r := from.FieldRef; r != nil {
		sources++
		errs = append(errs, validateFieldRef(r, envFields, at.Child("fieldRef"))...)
	}
	if r := from.ResourceFieldRef; r != nil {
		sources++
		errs = append(errs, validateResourceField(r, at.Child("resourceFieldRef"), false)...)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		sources++
		errs = append(errs, validateKeyRef(r.Name, r.Key, at.Child("configMapKeyRef"))...)
	}
	if r := from.SecretKeyRef; r != nil {
		sources++
		errs = append(errs, validateKeyRef(r.Name, r.Key, at.Child("secretKeyRef"))...)
	}
	if r := from.FileKeyRef; r != nil {
		sources++
		errs = append(errs, validateFileKeyRef(r, volumes, at.Child("fileKeyRef"))...)
	}
	switch {
	case sources == 0:
		errs = append(errs, field.Invalid(at, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case v.Value != "":
		errs = append(errs, field.Invalid(at, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func validateKeyRef(name, key string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if key == "" {
		return append(errs, field.Required(at.Child("key"), ""))
	}
	for _, msg := range utilvalidation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(at.Child("key"), key, msg))
	}
	return errs
}

func validateFileKeyRef(r *corev1.FileKeySelector, volumes map[string]corev1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Key == "" {
		errs = append(errs, field.Required(at.Child("key"), ""))
	} else {
		for _, msg := range utilvalidation.IsRelaxedEnvVarName(r.Key) {
			errs = append(errs, field.Invalid(at.Child("key"), r.Key, msg))
		}
	}
	if r.VolumeName == "" {
		errs = append(errs, field.Required(at.Child("volumeName"), ""))
	} else if v, ok := volumes[r.VolumeName]; !ok {
		errs = append(errs, field.NotFound(at.Child("volumeName"), r.VolumeName))
	} else if v.EmptyDir == nil {
		errs = append(errs, field.Invalid(at.Child("volumeName"), r.VolumeName, "referenced volume must be of type emptyDir"))
	}
	if r.Path == "" {
		return append(errs, field.Required(at.Child("path"), ""))
	}
	return append(errs, unreserved(r.Path, at.Child("path"))...)
}

// validateFieldRef checks a reference to one of the pod's own fields.
func validateFieldRef(r *corev1.ObjectFieldSelector, known sets.Set[string], at *field.Path) field.ErrorList {
	switch {
	case r.APIVersion == "":
		return field.ErrorList{field.Required(at.Child("apiVersion"), "")}
	case r.FieldPath == "":
		return field.ErrorList{field.Required(at.Child("fieldPath"), "")}
	case r.APIVersion != "v1":
		return field.ErrorList{field.Invalid(at.Child("fieldPath"), r.FieldPath,
			fmt.Sprintf("error converting fieldPath: unsupported pod version: %s", r.APIVersion))}
	}
	if base, key, ok := subscript(r.FieldPath); ok {
		return validateSubscript(base, key, at)
	}
	name := r.FieldPath
	if name == "spec.host" { // as it was called long ago
		name = "spec.nodeName"
	}
	if !podFields.Has(name) {
		return field.ErrorList{field.Invalid(at.Child("fieldPath"), r.FieldPath,
			fmt.Sprintf("error converting fieldPath: field label not supported: %s", r.FieldPath))}
	}
	if !known.Has(name) {
		return field.ErrorList{field.NotSupported(at.Child("fieldPath"), name, sets.List(known))}
	}
	return nil
}

// subscript splits "metadata.labels['key']".
func subscript(path string) (base, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	base, key, ok = strings.Cut(rest, "['")
	return base, key, ok && base != ""
}

func validateSubscript(base, key string, at *field.Path) field.ErrorList {
	var msgs []string
	switch base {
	case "metadata.annotations":
		msgs = utilvalidation.IsQualifiedName(strings.ToLower(key))
	case "metadata.labels":
		msgs = utilvalidation.IsQualifiedName(key)
	default:
		if !podFields.Has(base) {
			return field.ErrorList{field.Invalid(at.Child("fieldPath"), base+"['"+key+"']",
				fmt.Sprintf("error converting fieldPath: field label does not support subscript: %s", base+"['"+key+"']"))}
		}
		return field.ErrorList{field.Invalid(at.Child("fieldPath"), base, "does not support subscript")}
	}
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(at, key, msg))
	}
	return errs
}

func validateResourceField(r *corev1.ResourceFieldSelector, at *field.Path, volume bool) field.ErrorList {
	switch {
	case volume && r.ContainerName == "":
		return field.ErrorList{field.Required(at.Child("containerName"), "")}
	case r.Resource == "":
		return field.ErrorList{field.Required(at.Child("resource"), "")}
	}
	huge := strings.HasPrefix(r.Resource, "requests."+corev1.ResourceHugePagesPrefix) || strings.HasPrefix(r.Resource, "limits."+corev1.ResourceHugePagesPrefix)
	if !resourceFields.Has(r.Resource) && !huge {
		return field.ErrorList{field.NotSupported(at.Child("resource"), r.Resource, sets.List(resourceFields))}
	}
	divisors, kind := memoryDivisors, "memory"
	switch {
	case strings.HasSuffix(r.Resource, ".cpu"):
		divisors, kind = cpuDivisors, "cpu"
	case strings.HasSuffix(r.Resource, ".ephemeral-storage"):
		kind = "local ephemeral storage"
	case huge:
		kind = "hugepages"
	}
	if !r.Divisor.IsZero() && !divisors.Has(r.Divisor.String()) {
		list := sets.List(divisors)
		slices.Sort(list)
		return field.ErrorList{field.Invalid(at.Child("divisor"), r.Resource,
			fmt.Sprintf("only divisor's values %s are supported with the %s resource", strings.Join(list, ", "), kind))}
	}
	return nil
}

func validateEnvFrom(list []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		f, at := &list[i], path.Index(i)
		if f.Prefix != "" {
			for _, msg := range utilvalidation.IsRelaxedEnvVarName(f.Prefix) {
				errs = append(errs, field.Invalid(at.Child("prefix"), f.Prefix, msg))
			}
		}
		if f.ConfigMapRef != nil && f.ConfigMapRef.Name == "" {
			errs = append(errs, field.Required(at.Child("configMapRef", "name"), ""))
		}
		if f.SecretRef != nil && f.SecretRef.Name == "" {
			errs = append(errs, field.Required(at.Child("secretRef", "name"), ""))
		}
		switch {
		case f.ConfigMapRef == nil && f.SecretRef == nil:
			errs = append(errs, field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
		case f.ConfigMapRef != nil && f.SecretRef != nil:
			errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}
