package static

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate checks what a node needs of a pod to run it. The rest is checked by the API server when it is given the
// mirror pod.
func validate(pod *v1.Pod) field.ErrorList {
	errs := validation.ValidateObjectMeta(&pod.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	spec, path := &pod.Spec, field.NewPath("spec")
	volumes := map[string]bool{}
	for i := range spec.Volumes {
		at := path.Child("volumes").Index(i).Child("name")
		errs = append(errs, uniqueLabel(spec.Volumes[i].Name, volumes, at)...)
	}
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	names := map[string]bool{}
	for i := range spec.Containers {
		errs = append(errs, validateContainer(&spec.Containers[i], names, volumes, path.Child("containers").Index(i))...)
	}
	for i := range spec.InitContainers {
		errs = append(errs,
			validateContainer(&spec.InitContainers[i], names, volumes, path.Child("initContainers").Index(i))...)
	}
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	switch spec.RestartPolicy {
	case v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever:
	default:
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), spec.RestartPolicy, []v1.RestartPolicy{
			v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}))
	}
	switch spec.DNSPolicy {
	case v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet, v1.DNSDefault, v1.DNSNone:
	default:
		errs = append(errs, field.NotSupported(path.Child("dnsPolicy"), spec.DNSPolicy, []v1.DNSPolicy{
			v1.DNSClusterFirstWithHostNet, v1.DNSClusterFirst, v1.DNSDefault, v1.DNSNone}))
	}
	return errs
}

func validateContainer(c *v1.Container, names, volumes map[string]bool, path *field.Path) field.ErrorList {
	errs := uniqueLabel(c.Name, names, path.Child("name"))
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	for i := range c.VolumeMounts {
		mount, at := &c.VolumeMounts[i], path.Child("volumeMounts").Index(i)
		if mount.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else if !volumes[mount.Name] {
			errs = append(errs, field.NotFound(at.Child("name"), mount.Name))
		}
		if mount.MountPath == "" {
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		}
	}
	for i := range c.Ports {
		at := path.Child("ports").Index(i)
		for _, text := range utilvalidation.IsValidPortNum(int(c.Ports[i].ContainerPort)) {
			errs = append(errs, field.Invalid(at.Child("containerPort"), c.Ports[i].ContainerPort, text))
		}
	}
	return errs
}

// uniqueLabel checks a name that is needed, and notes it among those that were seen.
func uniqueLabel(name string, seen map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		return append(errs, field.Required(path, ""))
	}
	for _, text := range utilvalidation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, text))
	}
	if seen[name] {
		errs = append(errs, field.Duplicate(path, name))
	}
	seen[name] = true
	return errs
}
