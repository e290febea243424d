package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// source is one of the places where a persistent volume may come from.
type source struct {
	name  string
	set   bool
	check func(at *field.Path) field.ErrorList
	// shy sources are counted, but never told to be one too many.
	shy bool
}

// validateVolumeSource checks that a volume comes from exactly one place, and that place.
func validateVolumeSource(s *corev1.PersistentVolumeSpec, pv string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := 0
	for _, c := range sources(s, pv, path) {
		if !c.set {
			continue
		}
		if found++; found > 1 && !c.shy {
			errs = append(errs, field.Forbidden(path.Child(tooMany(c.name)), "may not specify more than 1 volume type"))
			continue
		}
		errs = append(errs, c.check(path.Child(c.name))...)
	}
	if found == 0 {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	return errs
}

// tooMany is the name under which a source is told to be one too many.
func tooMany(name string) string {
	switch name {
	case "persistentDisk":
		return "gcePersistentDisk"
	case "cephfs":
		return "cephFS"
	}
	return name
}

// sources are all of them, in the order in which they are checked.
func sources(s *corev1.PersistentVolumeSpec, pv string, path *field.Path) []source {
	v := &s.PersistentVolumeSource
	return []source{
		{name: "hostPath", set: v.HostPath != nil,
			check: func(at *field.Path) field.ErrorList { return podspec.HostPath(v.HostPath, at) }},
		{name: "persistentDisk", set: v.GCEPersistentDisk != nil, check: func(at *field.Path) field.ErrorList {
			return podspec.GCEPersistentDisk(v.GCEPersistentDisk, at)
		}},
		{name: "awsElasticBlockStore", set: v.AWSElasticBlockStore != nil, check: func(at *field.Path) field.ErrorList {
			return podspec.AWSElasticBlockStore(v.AWSElasticBlockStore, at)
		}},
		{name: "glusterfs", set: v.Glusterfs != nil,
			check: func(at *field.Path) field.ErrorList { return glusterfs(v.Glusterfs, at) }},
		{name: "flocker", set: v.Flocker != nil,
			check: func(at *field.Path) field.ErrorList { return podspec.Flocker(v.Flocker, at) }},
		{name: "nfs", set: v.NFS != nil, check: func(at *field.Path) field.ErrorList { return podspec.NFS(v.NFS, at) }},
		{name: "rbd", set: v.RBD != nil, check: func(at *field.Path) field.ErrorList {
			return append(monitors(v.RBD.CephMonitors, at), checks.Required(v.RBD.RBDImage, at.Child("image"))...)
		}},
		{name: "quobyte", set: v.Quobyte != nil,
			check: func(at *field.Path) field.ErrorList { return podspec.Quobyte(v.Quobyte, at) }},
		{name: "cephfs", set: v.CephFS != nil,
			check: func(at *field.Path) field.ErrorList { return monitors(v.CephFS.Monitors, at) }},
		{name: "iscsi", set: v.ISCSI != nil,
			check: func(at *field.Path) field.ErrorList { return iscsi(v.ISCSI, pv, at) }},
		{name: "cinder", set: v.Cinder != nil, check: func(at *field.Path) field.ErrorList {
			return append(checks.Required(v.Cinder.VolumeID, at.Child("volumeID")),
				secretRef(v.Cinder.SecretRef, at.Child("secretRef"))...)
		}},
		{name: "fc", set: v.FC != nil, check: func(at *field.Path) field.ErrorList { return podspec.FC(v.FC, at) }},
		{name: "flexVolume", shy: true, set: v.FlexVolume != nil, check: func(at *field.Path) field.ErrorList {
			return podspec.FlexVolume(v.FlexVolume.Driver, v.FlexVolume.Options, at)
		}},
		{name: "azureFile", set: v.AzureFile != nil,
			check: func(at *field.Path) field.ErrorList { return azureFile(v.AzureFile, at) }},
		{name: "vsphereVolume", set: v.VsphereVolume != nil, check: func(at *field.Path) field.ErrorList {
			return checks.Required(v.VsphereVolume.VolumePath, at.Child("volumePath"))
		}},
		{name: "photonPersistentDisk", set: v.PhotonPersistentDisk != nil, check: func(at *field.Path) field.ErrorList {
			return checks.Required(v.PhotonPersistentDisk.PdID, at.Child("pdID"))
		}},
		{name: "portworxVolume", set: v.PortworxVolume != nil, check: func(at *field.Path) field.ErrorList {
			return checks.Required(v.PortworxVolume.VolumeID, at.Child("volumeID"))
		}},
		{name: "azureDisk", set: v.AzureDisk != nil,
			check: func(at *field.Path) field.ErrorList { return podspec.AzureDisk(v.AzureDisk, at) }},
		{name: "scaleIO", set: v.ScaleIO != nil, check: func(at *field.Path) field.ErrorList {
			return podspec.ScaleIO(v.ScaleIO.Gateway, v.ScaleIO.System, v.ScaleIO.VolumeName, at)
		}},
		{name: "local", set: v.Local != nil, check: func(*field.Path) field.ErrorList { return local(s, path) }},
		{name: "storageos", set: v.StorageOS != nil, check: func(at *field.Path) field.ErrorList {
			return storageOS(v.StorageOS, at)
		}},
		{name: "csi", set: v.CSI != nil, check: func(at *field.Path) field.ErrorList { return csi(v.CSI, at) }},
	}
}

func storageOS(s *corev1.StorageOSPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := checks.Required(s.VolumeName, at.Child("volumeName"))
	for _, label := range []struct{ name, value string }{{"volumeName", s.VolumeName},
		{"volumeNamespace", s.VolumeNamespace}} {
		if label.value == "" {
			continue
		}
		for _, msg := range utilvalidation.IsDNS1123Label(label.value) {
			errs = append(errs, field.Invalid(at.Child(label.name), label.value, msg))
		}
	}
	return append(errs, objectSecret(s.SecretRef, at.Child("secretRef"))...)
}

func monitors(list []string, at *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(at.Child("monitors"), "")}
	}
	return nil
}

func glusterfs(g *corev1.GlusterfsPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(checks.Required(g.EndpointsName, at.Child("endpoints")),
		checks.Required(g.Path, at.Child("path"))...)
	if ns := g.EndpointsNamespace; ns != nil {
		if *ns == "" {
			return append(errs, field.Invalid(at.Child("endpointsNamespace"), *ns,
				"if the endpointnamespace is set, it must be a valid namespace name"))
		}
		errs = append(errs, checks.Text(*ns, at.Child("endpointsNamespace"), utilvalidation.IsDNS1123Label)...)
	}
	return errs
}

// secretRef checks the name of a secret of another namespace, where there is one.
func secretRef(r *corev1.SecretReference, at *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	return append(checks.Required(r.Name, at.Child("name")), checks.Required(r.Namespace, at.Child("namespace"))...)
}

func objectSecret(r *corev1.ObjectReference, at *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	return secretRef(&corev1.SecretReference{Name: r.Name, Namespace: r.Namespace}, at)
}

func azureFile(f *corev1.AzureFilePersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(checks.Required(f.SecretName, at.Child("secretName")),
		checks.Required(f.ShareName, at.Child("shareName"))...)
	if ns := f.SecretNamespace; ns != nil {
		errs = append(errs, checks.Required(*ns, at.Child("secretNamespace"))...)
	}
	return errs
}

// maxISCSIName bounds what the initiator of a volume is called on a node.
const maxISCSIName = 64

func iscsi(v *corev1.ISCSIPersistentVolumeSource, pv string, at *field.Path) field.ErrorList {
	errs := checks.Required(v.TargetPortal, at.Child("targetPortal"))
	if v.InitiatorName != nil && len(pv+":"+v.TargetPortal) > maxISCSIName {
		errs = append(errs, field.Invalid(at.Child("targetportal"), v.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "+
				"specified."))
	}
	errs = append(errs, checks.Required(v.IQN, at.Child("iqn"))...)
	if v.IQN != "" && !isISCSIName(v.IQN) {
		errs = append(errs, field.Invalid(at.Child("iqn"), v.IQN, "must be valid format"))
	}
	if v.Lun < 0 || v.Lun > 255 {
		errs = append(errs, field.Invalid(at.Child("lun"), v.Lun, utilvalidation.InclusiveRangeError(0, 255)))
	}
	switch {
	case v.SecretRef != nil:
		errs = append(errs, checks.Required(v.SecretRef.Name, at.Child("secretRef", "name"))...)
	case v.DiscoveryCHAPAuth || v.SessionCHAPAuth:
		errs = append(errs, field.Required(at.Child("secretRef"), ""))
	}
	if v.InitiatorName != nil && !isISCSIName(*v.InitiatorName) {
		errs = append(errs, field.Invalid(at.Child("initiatorname"), *v.InitiatorName, "must be valid format"))
	}
	return errs
}

func isISCSIName(name string) bool {
	return len(podspec.QualifiedISCSIName(name, field.NewPath("iqn"))) == 0
}

func local(s *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	at := path.Child("local", "path")
	errs := checks.Required(s.Local.Path, at)
	for part := range strings.SplitSeq(s.Local.Path, "/") {
		if part == ".." {
			errs = append(errs, field.Invalid(at, s.Local.Path, "must not contain '..'"))
			break
		}
	}
	if s.NodeAffinity == nil {
		errs = append(errs, field.Required(path.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	return errs
}

func csi(c *corev1.CSIPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := podspec.DriverName(c.Driver, at.Child("driver"))
	errs = append(errs, checks.Required(c.VolumeHandle, at.Child("volumeHandle"))...)
	for _, s := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef}, {"nodeExpandSecretRef", c.NodeExpandSecretRef},
	} {
		errs = append(errs, namedSecret(s.ref, at.Child(s.name))...)
	}
	return errs
}

func namedSecret(r *corev1.SecretReference, at *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if r.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, checks.Text(r.Name, at.Child("name"), checks.Subdomain)...)
	}
	if r.Namespace == "" {
		return append(errs, field.Required(at.Child("namespace"), ""))
	}
	return append(errs, checks.Text(r.Namespace, at.Child("namespace"), utilvalidation.IsDNS1123Label)...)
}

// VolumeWarnings tell of sources and policies that have gone or will go.
func VolumeWarnings(v, _ *corev1.PersistentVolume) []string {
	var out []string
	for _, a := range []struct{ name, text string }{
		{corev1.BetaStorageClassAnnotation, `deprecated since v1.8; use "storageClassName" attribute instead`},
		{corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`},
	} {
		if _, has := v.Annotations[a.name]; has {
			out = append(out, fmt.Sprintf("metadata.annotations[%s]: %s", a.name, a.text))
		}
	}
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		out = append(out,
			"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach "+
				"is to use dynamic provisioning.")
	}
	if n := v.Spec.NodeAffinity; n != nil && n.Required != nil {
		for i := range n.Required.NodeSelectorTerms {
			out = append(out, podspec.NodeTermWarnings(&n.Required.NodeSelectorTerms[i],
				field.NewPath("spec", "nodeAffinity", "required", "nodeSelectorTerms").Index(i))...)
		}
	}
	s := &v.Spec.PersistentVolumeSource
	for _, w := range []struct {
		set  bool
		text string
	}{
		{s.CephFS != nil, "spec.cephfs: deprecated in v1.28, non-functional in v1.31+"},
		{s.PhotonPersistentDisk != nil, "spec.photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+"},
		{s.ScaleIO != nil, "spec.scaleIO: deprecated in v1.16, non-functional in v1.22+"},
		{s.StorageOS != nil, "spec.storageOS: deprecated in v1.22, non-functional in v1.25+"},
		{s.Glusterfs != nil, "spec.glusterfs: deprecated in v1.25, non-functional in v1.26+"},
		{s.RBD != nil, "spec.rbd: deprecated in v1.28, non-functional in v1.31+"},
	} {
		if w.set {
			out = append(out, w.text)
		}
	}
	return out
}
