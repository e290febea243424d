package podspec

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *containers) mounts(ctr *corev1.Container, list *field.Path) field.ErrorList {
	if len(ctr.VolumeMounts) == 0 {
		return nil
	}
	var errs field.ErrorList
	var devices map[string]string
	if len(ctr.VolumeDevices) > 0 {
		devices = map[string]string{}
	}
	for _, d := range ctr.VolumeDevices {
		devices[d.Name] = d.DevicePath
	}
	devicePaths := pathsOf(devices)
	taken := sets.New[string]()
	for i := range ctr.VolumeMounts {
		m, at := &ctr.VolumeMounts[i], list.Index(i)
		errs = append(errs, required1(m.Name, at.Child("name"))...)
		if _, ok := c.volumes[m.Name]; !ok {
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		errs = append(errs, required1(m.MountPath, at.Child("mountPath"))...)
		if taken.Has(m.MountPath) {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		taken.Insert(m.MountPath)
		if _, ok := devices[m.Name]; ok {
			errs = append(errs, field.Invalid(at.Child("name"), m.Name, "must not already exist in volumeDevices"))
		}
		if devicePaths.Has(m.MountPath) {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath,
				"must not already exist as a path in volumeDevices"))
		}
		errs = append(errs, validateMount(m, ctr, list, at)...)
	}
	return errs
}

// validateMount checks what a mount says for itself. Upstream names the list, and not the item, in most of these
// errors.
func validateMount(m *corev1.VolumeMount, ctr *corev1.Container, list, item *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.SubPath != "" {
		errs = append(errs, descending(m.SubPath, list.Child("subPath"))...)
	}
	if m.SubPathExpr != "" {
		if m.SubPath != "" {
			errs = append(errs, field.Invalid(item.Child("subPathExpr"), m.SubPathExpr,
				"subPathExpr and subPath are mutually exclusive"))
		}
		errs = append(errs, descending(m.SubPathExpr, list.Child("subPathExpr"))...)
	}
	if mode := m.MountPropagation; mode != nil {
		errs = append(errs, supported(*mode, list.Child("mountPropagation"), corev1.MountPropagationBidirectional,
			corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
		privileged := ctr.SecurityContext != nil && ctr.SecurityContext.Privileged != nil &&
			*ctr.SecurityContext.Privileged
		if *mode == corev1.MountPropagationBidirectional && !privileged {
			errs = append(errs, field.Forbidden(list.Child("mountPropagation"),
				"Bidirectional mount propagation is available only to privileged containers"))
		}
	}
	return append(errs, validateRecursive(m, list.Child("recursiveReadOnly"))...)
}

func validateRecursive(m *corev1.VolumeMount, at *field.Path) field.ErrorList {
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return nil
	}
	known := []corev1.RecursiveReadOnlyMode{corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled,
		corev1.RecursiveReadOnlyIfPossible}
	if !slices.Contains(known, *m.RecursiveReadOnly) {
		return field.ErrorList{field.NotSupported(at, *m.RecursiveReadOnly, known)}
	}
	var errs field.ErrorList
	if !m.ReadOnly {
		errs = append(errs, field.Forbidden(at, "may only be specified when readOnly is true"))
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		errs = append(errs, field.Forbidden(at, "may only be specified when mountPropagation is None or not specified"))
	}
	return errs
}

func (c *containers) devices(ctr *corev1.Container, list *field.Path) field.ErrorList {
	if len(ctr.VolumeDevices) == 0 {
		return nil
	}
	var errs field.ErrorList
	mounts := map[string]string{}
	for _, m := range ctr.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	mountPaths := pathsOf(mounts)
	names, paths := sets.New[string](), sets.New[string]()
	for i, d := range ctr.VolumeDevices {
		name, devicePath := list.Index(i).Child("name"), list.Index(i).Child("devicePath")
		errs = append(errs, required1(d.Name, name)...)
		if names.Has(d.Name) {
			errs = append(errs, field.Invalid(name, d.Name, "must be unique"))
		}
		source, ok := c.volumes[d.Name]
		switch {
		case !ok:
			errs = append(errs, field.NotFound(name, d.Name))
		case source.PersistentVolumeClaim == nil && source.Ephemeral == nil:
			errs = append(errs, field.Invalid(name, d.Name,
				"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		errs = append(errs, required1(d.DevicePath, devicePath)...)
		if paths.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(devicePath, d.DevicePath, "must be unique"))
		}
		if hasBackSteps(d.DevicePath) {
			errs = append(errs, field.Invalid(devicePath, d.DevicePath, "can not contain backsteps ('..')"))
		} else {
			paths.Insert(d.DevicePath)
		}
		if _, ok := mounts[d.Name]; ok {
			errs = append(errs, field.Invalid(name, d.Name, "must not already exist in volumeMounts"))
		}
		if mountPaths.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(devicePath, d.DevicePath,
				"must not already exist as a path in volumeMounts"))
		}
		if d.Name != "" {
			names.Insert(d.Name)
		}
	}
	return errs
}

// pathsOf are the paths by which volumes are found in a container. Of a volume with more than one only the last counts,
// as upstream has it.
func pathsOf(byVolume map[string]string) sets.Set[string] {
	if len(byVolume) == 0 {
		return nil
	}
	paths := make(sets.Set[string], len(byVolume))
	for _, p := range byVolume {
		paths.Insert(p)
	}
	return paths
}

// descending checks a path that must stay below where it starts.
func descending(value string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(value) {
		errs = append(errs, field.Invalid(at, value, "must be a relative path"))
	}
	return append(errs, noBackSteps(value, at)...)
}

func noBackSteps(value string, at *field.Path) field.ErrorList {
	if hasBackSteps(value) {
		return field.ErrorList{field.Invalid(at, value, "must not contain '..'")}
	}
	return nil
}

func hasBackSteps(value string) bool { return slices.Contains(strings.Split(value, "/"), "..") }

// unreserved checks a relative path whose first step must not start with "..": such names are the kubelet's.
func unreserved(value string, at *field.Path) field.ErrorList {
	errs := descending(value, at)
	if strings.HasPrefix(value, "..") && !strings.HasPrefix(value, "../") {
		errs = append(errs, field.Invalid(at, value, "must not start with '..'"))
	}
	return errs
}
