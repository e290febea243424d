package podspec

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *containerContext) validateMounts(ctr *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	deviceNames, devicePaths := sets.New[string](), sets.New[string]()
	for _, d := range ctr.VolumeDevices {
		deviceNames.Insert(d.Name)
		devicePaths.Insert(d.DevicePath)
	}
	mountNames, mountPaths := sets.New[string](), sets.New[string]()
	for i := range ctr.VolumeMounts {
		m, p := &ctr.VolumeMounts[i], at.Child("volumeMounts").Index(i)
		errs = append(errs, c.volumeName(m.Name, p.Child("name"))...)
		if m.MountPath == "" {
			errs = append(errs, field.Required(p.Child("mountPath"), ""))
		}
		if mountPaths.Has(m.MountPath) {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must be unique"))
		}
		mountPaths.Insert(m.MountPath)
		mountNames.Insert(m.Name)
		if deviceNames.Has(m.Name) {
			errs = append(errs, field.Invalid(p.Child("name"), m.Name, "must not already exist in volumeDevices"))
		}
		if devicePaths.Has(m.MountPath) {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices"))
		}
		errs = append(errs, validateMount(m, ctr, p)...)
	}
	return append(errs, c.validateDevices(ctr, at.Child("volumeDevices"), mountNames, mountPaths)...)
}

func (c *containerContext) volumeName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if _, ok := c.volumes[name]; !ok {
		return field.ErrorList{field.NotFound(at, name)}
	}
	return nil
}

func validateMount(m *corev1.VolumeMount, ctr *corev1.Container, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.SubPath != "" {
		errs = append(errs, descending(m.SubPath, p.Child("subPath"))...)
	}
	if m.SubPathExpr != "" {
		if m.SubPath != "" {
			errs = append(errs, field.Invalid(p.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
		}
		errs = append(errs, descending(m.SubPathExpr, p.Child("subPathExpr"))...)
	}
	if mode := m.MountPropagation; mode != nil {
		known := sets.New(corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		if !known.Has(*mode) {
			errs = append(errs, field.NotSupported(p.Child("mountPropagation"), *mode, sets.List(known)))
		}
		privileged := ctr.SecurityContext != nil && ctr.SecurityContext.Privileged != nil && *ctr.SecurityContext.Privileged
		if *mode == corev1.MountPropagationBidirectional && !privileged {
			errs = append(errs, field.Forbidden(p.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers"))
		}
	}
	if r := m.RecursiveReadOnly; r != nil && *r != corev1.RecursiveReadOnlyDisabled {
		at := p.Child("recursiveReadOnly")
		switch *r {
		case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
			if !m.ReadOnly {
				errs = append(errs, field.Forbidden(at, "may only be specified when readOnly is true"))
			}
			if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
				errs = append(errs, field.Forbidden(at, "may only be specified when mountPropagation is None or not specified"))
			}
		default:
			errs = append(errs, field.NotSupported(at, *r, []corev1.RecursiveReadOnlyMode{
				corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible}))
		}
	}
	return errs
}

func (c *containerContext) validateDevices(ctr *corev1.Container, path *field.Path, mountNames, mountPaths sets.Set[string]) field.ErrorList {
	var errs field.ErrorList
	names, paths := sets.New[string](), sets.New[string]()
	for i, d := range ctr.VolumeDevices {
		p := path.Index(i)
		if d.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), ""))
		}
		if names.Has(d.Name) {
			errs = append(errs, field.Invalid(p.Child("name"), d.Name, "must be unique"))
		}
		source, ok := c.volumes[d.Name]
		if d.Name != "" && !ok {
			errs = append(errs, field.NotFound(p.Child("name"), d.Name))
		} else if ok && source.PersistentVolumeClaim == nil && source.Ephemeral == nil {
			errs = append(errs, field.Invalid(p.Child("name"), d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		if d.DevicePath == "" {
			errs = append(errs, field.Required(p.Child("devicePath"), ""))
		}
		if paths.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(p.Child("devicePath"), d.DevicePath, "must be unique"))
		}
		errs = append(errs, noBackSteps(d.DevicePath, p.Child("devicePath"))...)
		if mountNames.Has(d.Name) {
			errs = append(errs, field.Invalid(p.Child("name"), d.Name, "must not already exist in volumeMounts"))
		}
		if mountPaths.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(p.Child("devicePath"), d.DevicePath, "must not already exist as a path in volumeMounts"))
		}
		names.Insert(d.Name)
		paths.Insert(d.DevicePath)
	}
	return errs
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
	for _, step := range strings.Split(strings.ReplaceAll(value, "\\", "/"), "/") {
		if step == ".." {
			return field.ErrorList{field.Invalid(at, value, "must not contain '..'")}
		}
	}
	return nil
}

// unreserved checks a relative path whose first step must not start with "..": such names are the kubelet's.
func unreserved(value string, at *field.Path) field.ErrorList {
	errs := descending(value, at)
	if strings.HasPrefix(value, "..") && !strings.HasPrefix(value, "../") {
		errs = append(errs, field.Invalid(at, value, "must not start with '..'"))
	}
	return errs
}
