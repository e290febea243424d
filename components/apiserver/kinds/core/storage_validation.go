package core

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// ValidateVolume checks a persistent volume.
func ValidateVolume(v *corev1.PersistentVolume) field.ErrorList {
	path, s := field.NewPath("spec"), &v.Spec
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), ""))
	}
	errs = append(errs, podspec.AccessModes(s.AccessModes, path.Child("accessModes"))...)
	capacity := path.Child("capacity")
	if len(s.Capacity) == 0 {
		errs = append(errs, field.Required(capacity, ""))
	}
	if _, ok := s.Capacity[corev1.ResourceStorage]; !ok || len(s.Capacity) > 1 {
		errs = append(errs, field.NotSupported(capacity, s.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for n, q := range s.Capacity {
		errs = append(errs, podspec.PositiveQuantity(n, q, capacity.Key(string(n)))...)
	}
	errs = append(errs, checks.OneOf(s.PersistentVolumeReclaimPolicy, path.Child("persistentVolumeReclaimPolicy"),
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	errs = append(errs, validateVolumeSource(s, path)...)
	if s.NodeAffinity != nil {
		at := path.Child("nodeAffinity", "required")
		if s.NodeAffinity.Required == nil {
			errs = append(errs, field.Required(at, "must specify required node constraints"))
		} else {
			errs = append(errs, podspec.NodeSelector(s.NodeAffinity.Required, at)...)
		}
	}
	if s.StorageClassName != "" {
		errs = append(errs, checks.Text(s.StorageClassName, path.Child("storageClassName"), checks.Subdomain)...)
	}
	if m := s.VolumeMode; m != nil && *m != corev1.PersistentVolumeBlock && *m != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.NotSupported(path.Child("volumeMode"), *m,
			[]corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}))
	}
	return errs
}

func validateVolumeSource(s *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := 0
	src := &s.PersistentVolumeSource
	for _, c := range []struct {
		name  string
		set   bool
		check func(at *field.Path) field.ErrorList
	}{
		{"hostPath", src.HostPath != nil, func(at *field.Path) field.ErrorList { return podspec.HostPath(src.HostPath, at) }},
		{"nfs", src.NFS != nil, func(at *field.Path) field.ErrorList { return podspec.NFS(src.NFS, at) }},
		{"fc", src.FC != nil, func(at *field.Path) field.ErrorList { return podspec.FC(src.FC, at) }},
		{"csi", src.CSI != nil, func(at *field.Path) field.ErrorList {
			return append(podspec.DriverName(src.CSI.Driver, at.Child("driver")), checks.Required(src.CSI.VolumeHandle, at.Child("volumeHandle"))...)
		}},
		{"local", src.Local != nil, func(at *field.Path) field.ErrorList {
			out := checks.Required(src.Local.Path, at.Child("path"))
			if s.NodeAffinity == nil || s.NodeAffinity.Required == nil {
				out = append(out, field.Required(field.NewPath("spec", "nodeAffinity"), "Local volume requires node affinity"))
			}
			return out
		}},
		{"gcePersistentDisk", src.GCEPersistentDisk != nil, nil}, {"awsElasticBlockStore", src.AWSElasticBlockStore != nil, nil},
		{"glusterfs", src.Glusterfs != nil, nil}, {"rbd", src.RBD != nil, nil}, {"iscsi", src.ISCSI != nil, nil},
		{"cinder", src.Cinder != nil, nil}, {"cephfs", src.CephFS != nil, nil}, {"flocker", src.Flocker != nil, nil},
		{"flexVolume", src.FlexVolume != nil, nil}, {"azureFile", src.AzureFile != nil, nil}, {"vsphereVolume", src.VsphereVolume != nil, nil},
		{"quobyte", src.Quobyte != nil, nil}, {"azureDisk", src.AzureDisk != nil, nil}, {"photonPersistentDisk", src.PhotonPersistentDisk != nil, nil},
		{"portworxVolume", src.PortworxVolume != nil, nil}, {"scaleIO", src.ScaleIO != nil, nil}, {"storageos", src.StorageOS != nil, nil},
	} {
		if !c.set {
			continue
		}
		if found++; found > 1 {
			errs = append(errs, field.Forbidden(path.Child(c.name), "may not specify more than 1 volume type"))
		} else if c.check != nil {
			errs = append(errs, c.check(path.Child(c.name))...)
		}
	}
	if found == 0 {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	return errs
}

// ValidateVolumeUpdate checks a change: where the data is stays.
func ValidateVolumeUpdate(new, old *corev1.PersistentVolume) field.ErrorList {
	errs := ValidateVolume(new)
	source := field.NewPath("spec", "persistentvolumesource")
	is, was := new.Spec.PersistentVolumeSource.DeepCopy(), old.Spec.PersistentVolumeSource.DeepCopy()
	if is.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		is.CSI.ControllerExpandSecretRef = nil // may be added
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		errs = append(errs, field.Forbidden(source, "spec.persistentvolumesource is immutable after creation"))
	}
	errs = append(errs, validation.ValidateImmutableField(new.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil {
		errs = append(errs, validation.ValidateImmutableField(new.Spec.NodeAffinity, old.Spec.NodeAffinity, field.NewPath("spec", "nodeAffinity"))...)
	}
	return errs
}

// ValidateClaim checks a persistent volume claim.
func ValidateClaim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	return podspec.ClaimSpec(&c.Spec, field.NewPath("spec"))
}

// ValidateClaimUpdate checks a change: a claim may be bound, and a bound one may grow.
func ValidateClaimUpdate(new, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := ValidateClaim(new)
	path := field.NewPath("spec")
	is, was := new.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		is.VolumeName = was.VolumeName
	}
	size, before := is.Resources.Requests[corev1.ResourceStorage], was.Resources.Requests[corev1.ResourceStorage]
	if old.Status.Phase == corev1.ClaimBound && size.Cmp(before) != 0 {
		if size.Cmp(before) < 0 {
			current := old.Status.Capacity[corev1.ResourceStorage]
			if size.Cmp(current) <= 0 {
				errs = append(errs, field.Forbidden(path.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
			}
		}
		is.Resources.Requests[corev1.ResourceStorage] = before
	}
	is.VolumeAttributesClassName = was.VolumeAttributesClassName
	if was.StorageClassName == nil { // a default class may be set later
		is.StorageClassName = nil
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		errs = append(errs, field.Forbidden(path, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	return errs
}
