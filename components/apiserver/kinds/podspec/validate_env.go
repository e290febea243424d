package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// The fields of a pod that the downward API knows, by the names of v1.
var (
	podFields = sets.New("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
		"metadata.uid",
		"spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName",
		"status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	// envFields are those that an environment variable may show.
	envFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
		"spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	// volumeFields are those that a file may show.
	volumeFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
		"metadata.uid"}
)

func validateEnv(vars []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		v, at := &vars[i], path.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			errs = append(errs, problems(v.Name, at.Child("name"), utilvalidation.IsRelaxedEnvVarName)...)
		}
		errs = append(errs, validateEnvSource(v, at.Child("valueFrom"))...)
	}
	return errs
}

func validateEnvSource(v *corev1.EnvVar, at *field.Path) field.ErrorList {
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
		errs = append(errs, validateFileKeyRef(r, at.Child("fileKeyRef"))...)
	}
	switch {
	case sources == 0:
		errs = append(errs, field.Invalid(at, "",
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case v.Value != "":
		errs = append(errs, field.Invalid(at, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func validateKeyRef(name, key string, at *field.Path) field.ErrorList {
	errs := problems(name, at.Child("name"), checks.Subdomain)
	if key == "" {
		return append(errs, field.Required(at.Child("key"), ""))
	}
	return append(errs, problems(key, at.Child("key"), utilvalidation.IsConfigMapKey)...)
}

func validateFileKeyRef(r *corev1.FileKeySelector, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Key == "" {
		errs = append(errs, field.Required(at.Child("key"), ""))
	} else {
		errs = append(errs, problems(r.Key, at.Child("key"), utilvalidation.IsRelaxedEnvVarName)...)
	}
	if r.VolumeName == "" {
		errs = append(errs, field.Required(at.Child("volumeName"), ""))
	} else {
		errs = append(errs, problems(r.VolumeName, at.Child("volumeName"), checks.Label)...)
	}
	errs = append(errs, required1(r.Path, at.Child("path"))...)
	return append(errs, noBackSteps(r.Path, at.Child("path"))...)
}

// validateFileVolumes checks the volumes of all files of variables.
func validateFileVolumes(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(env []corev1.EnvVar, list string, at int) {
		for i := range env {
			if from := env[i].ValueFrom; from != nil && from.FileKeyRef != nil {
				errs = append(errs, fileVolume(from.FileKeyRef.VolumeName, s.Volumes,
					path.Child(list).Index(at).Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName"))...)
			}
		}
	}
	for i := range s.InitContainers {
		check(s.InitContainers[i].Env, "initContainers", i)
	}
	for i := range s.Containers {
		check(s.Containers[i].Env, "containers", i)
	}
	for i := range s.EphemeralContainers {
		check(s.EphemeralContainers[i].Env, "ephemeralContainers", i)
	}
	return errs
}

// fileVolume checks that a file of variables lies in a volume where a container of the pod can write it.
func fileVolume(name string, volumes []corev1.Volume, at *field.Path) field.ErrorList {
	for _, v := range slices.Backward(volumes) { // the last one of several of a name, as upstream has it
		switch {
		case v.Name != name:
			continue
		case v.EmptyDir == nil:
			return field.ErrorList{field.Invalid(at, name, "referenced volume must be of type emptyDir")}
		}
		return nil
	}
	return field.ErrorList{field.NotFound(at, name)}
}

// validateFieldRef checks a reference to one of the pod's own fields.
func validateFieldRef(r *corev1.ObjectFieldSelector, known []string, at *field.Path) field.ErrorList {
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
	return supported(name, at.Child("fieldPath"), known...)
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
	switch base {
	case "metadata.annotations":
		return problems(strings.ToLower(key), at, utilvalidation.IsQualifiedName)
	case "metadata.labels":
		return problems(key, at, utilvalidation.IsQualifiedName)
	}
	whole := base + "['" + key + "']"
	return field.ErrorList{field.Invalid(at.Child("fieldPath"), whole,
		"error converting fieldPath: field label does not support subscript: "+whole)}
}

// What the downward API shows of a container's resources, and in which units.
var (
	resourceFields = []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory",
		"requests.cpu", "requests.ephemeral-storage", "requests.memory"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

func validateResourceField(r *corev1.ResourceFieldSelector, at *field.Path, volume bool) field.ErrorList {
	var errs field.ErrorList
	switch {
	case volume && r.ContainerName == "":
		errs = append(errs, field.Required(at.Child("containerName"), ""))
	case r.Resource == "":
		errs = append(errs, field.Required(at.Child("resource"), ""))
	case !slices.Contains(resourceFields, r.Resource) && !isHugeField(r.Resource):
		errs = append(errs, field.NotSupported(at.Child("resource"), r.Resource, resourceFields))
	}
	return append(errs, divisor(r, at.Child("divisor"))...)
}

func isHugeField(name string) bool {
	return strings.HasPrefix(name, "requests."+corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(name, "limits."+corev1.ResourceHugePagesPrefix)
}

// divisor checks the unit in which a resource is shown, if that is one that is known.
func divisor(r *corev1.ResourceFieldSelector, at *field.Path) field.ErrorList {
	divisors, text, kind := byteDivisors, strings.Join(byteDivisors, ", "), "memory"
	switch r.Resource {
	case "limits.cpu", "requests.cpu":
		divisors, text, kind = []string{"1m", "1"}, "1m and 1", "cpu"
	case "limits.memory", "requests.memory":
	case "limits.ephemeral-storage", "requests.ephemeral-storage":
		kind = "local ephemeral storage"
	default:
		if !isHugeField(r.Resource) {
			return nil
		}
		kind = "hugepages"
	}
	if r.Divisor.IsZero() || slices.Contains(divisors, r.Divisor.String()) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, r.Resource,
		fmt.Sprintf("only divisor's values %s are supported with the %s resource", text, kind))}
}

func validateEnvFrom(list []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		f, at := &list[i], path.Index(i)
		if f.Prefix != "" {
			errs = append(errs, problems(f.Prefix, at.Child("prefix"), utilvalidation.IsRelaxedEnvVarName)...)
		}
		if f.ConfigMapRef != nil {
			errs = append(errs, objectName(f.ConfigMapRef.Name, at.Child("configMapRef", "name"))...)
		}
		if f.SecretRef != nil {
			errs = append(errs, objectName(f.SecretRef.Name, at.Child("secretRef", "name"))...)
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

// objectName checks the name of an object; as if more were added to it, it may end in "-".
func objectName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return problems(name, at, func(name string) []string { return checks.SubdomainOf(name, true) })
}
