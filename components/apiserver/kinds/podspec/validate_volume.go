package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateVolumes checks the volumes of a pod and returns those that containers may refer to, by name. meta is nil in
// templates.
func validateVolumes(list []corev1.Volume, meta *metav1.ObjectMeta, path *field.Path) (map[string]corev1.VolumeSource, field.ErrorList) {
	var errs field.ErrorList
	byName := map[string]corev1.VolumeSource{}
	for i := range list {
		v, at := &list[i], path.Index(i)
		more := validateSource(v, meta, at)
		switch _, taken := byName[v.Name]; {
		case v.Name == "":
			more = append(more, field.Required(at.Child("name"), ""))
		case taken:
			more = append(more, field.Duplicate(at.Child("name"), v.Name))
		default:
			more = append(more, problems(v.Name, at.Child("name"), utilvalidation.IsDNS1123Label)...)
		}
		if len(more) == 0 {
			byName[v.Name] = v.VolumeSource
		}
		errs = append(errs, more...)
	}
	return byName, errs
}

// member is one member of the union of volume types. Upstream calls some by another name where there are two of them
// (second) or where their own fields are named (path).
type member struct {
	name, second, path string
	set                bool
	check              func(at *field.Path) field.ErrorList
}

// validateSource checks that the volume has one type, and that type's fields. The order is the one in which upstream
// looks: of two types the later one is the one too many.
func validateSource(v *corev1.Volume, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := false
	for _, m := range members(v, meta, path) {
		if !m.set {
			continue
		}
		if found {
			errs = append(errs, field.Forbidden(path.Child(or(m.second, m.name)), "may not specify more than 1 volume type"))
			continue
		}
		found = true
		errs = append(errs, m.check(path.Child(or(m.path, m.name)))...)
	}
	if !found {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	return errs
}

func members(v *corev1.Volume, meta *metav1.ObjectMeta, path *field.Path) []member {
	on := func(name string, set bool, check func(at *field.Path) field.ErrorList) member {
		return member{name: name, set: set, check: check}
	}
	return []member{
		on("emptyDir", v.EmptyDir != nil, func(at *field.Path) field.ErrorList { return validateEmptyDir(v.EmptyDir, at) }),
		on("hostPath", v.HostPath != nil, func(at *field.Path) field.ErrorList { return HostPath(v.HostPath, at) }),
		on("gitRepo", v.GitRepo != nil, func(at *field.Path) field.ErrorList { return validateGitRepo(v.GitRepo, at) }),
		{name: "gcePersistentDisk", path: "persistentDisk", set: v.GCEPersistentDisk != nil,
			check: func(at *field.Path) field.ErrorList { return GCEPersistentDisk(v.GCEPersistentDisk, at) }},
		on("awsElasticBlockStore", v.AWSElasticBlockStore != nil, func(at *field.Path) field.ErrorList { return AWSElasticBlockStore(v.AWSElasticBlockStore, at) }),
		on("secret", v.Secret != nil, func(at *field.Path) field.ErrorList { return validateSecretVolume(v.Secret, at) }),
		on("nfs", v.NFS != nil, func(at *field.Path) field.ErrorList { return NFS(v.NFS, at) }),
		on("iscsi", v.ISCSI != nil, func(at *field.Path) field.ErrorList { return validateISCSI(v.ISCSI, v.Name, at, path.Child("name")) }),
		on("glusterfs", v.Glusterfs != nil, func(at *field.Path) field.ErrorList {
			return append(required1(v.Glusterfs.EndpointsName, at.Child("endpoints")), required1(v.Glusterfs.Path, at.Child("path"))...)
		}),
		on("flocker", v.Flocker != nil, func(at *field.Path) field.ErrorList { return Flocker(v.Flocker, at) }),
		on("persistentVolumeClaim", v.PersistentVolumeClaim != nil, func(at *field.Path) field.ErrorList {
			return required1(v.PersistentVolumeClaim.ClaimName, at.Child("claimName"))
		}),
		on("rbd", v.RBD != nil, func(at *field.Path) field.ErrorList {
			return append(requiredList(v.RBD.CephMonitors, at.Child("monitors")), required1(v.RBD.RBDImage, at.Child("image"))...)
		}),
		on("cinder", v.Cinder != nil, func(at *field.Path) field.ErrorList {
			return append(required1(v.Cinder.VolumeID, at.Child("volumeID")), secretName(v.Cinder.SecretRef, at)...)
		}),
		{name: "cephfs", second: "cephFS", set: v.CephFS != nil,
			check: func(at *field.Path) field.ErrorList { return requiredList(v.CephFS.Monitors, at.Child("monitors")) }},
		on("quobyte", v.Quobyte != nil, func(at *field.Path) field.ErrorList { return Quobyte(v.Quobyte, at) }),
		{name: "downwardAPI", second: "downwarAPI", set: v.DownwardAPI != nil,
			check: func(at *field.Path) field.ErrorList { return validateDownward(v.DownwardAPI, at) }},
		on("fc", v.FC != nil, func(at *field.Path) field.ErrorList { return FC(v.FC, at) }),
		on("flexVolume", v.FlexVolume != nil, func(at *field.Path) field.ErrorList {
			return FlexVolume(v.FlexVolume.Driver, v.FlexVolume.Options, at)
		}),
		on("configMap", v.ConfigMap != nil, func(at *field.Path) field.ErrorList { return validateConfigMapVolume(v.ConfigMap, at) }),
		on("azureFile", v.AzureFile != nil, func(at *field.Path) field.ErrorList {
			return append(required1(v.AzureFile.SecretName, at.Child("secretName")), required1(v.AzureFile.ShareName, at.Child("shareName"))...)
		}),
		on("vsphereVolume", v.VsphereVolume != nil, func(at *field.Path) field.ErrorList {
			return required1(v.VsphereVolume.VolumePath, at.Child("volumePath"))
		}),
		on("photonPersistentDisk", v.PhotonPersistentDisk != nil, func(at *field.Path) field.ErrorList {
			return required1(v.PhotonPersistentDisk.PdID, at.Child("pdID"))
		}),
		on("portworxVolume", v.PortworxVolume != nil, func(at *field.Path) field.ErrorList {
			return required1(v.PortworxVolume.VolumeID, at.Child("volumeID"))
		}),
		on("azureDisk", v.AzureDisk != nil, func(at *field.Path) field.ErrorList { return AzureDisk(v.AzureDisk, at) }),
		on("storageos", v.StorageOS != nil, func(at *field.Path) field.ErrorList { return validateStorageOS(v.StorageOS, at) }),
		on("projected", v.Projected != nil, func(at *field.Path) field.ErrorList { return validateProjected(v.Projected, at) }),
		on("scaleIO", v.ScaleIO != nil, func(at *field.Path) field.ErrorList {
			return ScaleIO(v.ScaleIO.Gateway, v.ScaleIO.System, v.ScaleIO.VolumeName, at)
		}),
		on("csi", v.CSI != nil, func(at *field.Path) field.ErrorList { return validateCSI(v.CSI, at) }),
		on("ephemeral", v.Ephemeral != nil, func(at *field.Path) field.ErrorList {
			return append(validateEphemeralVolume(v.Ephemeral, at), claimName(v.Name, meta, path.Child("name"))...)
		}),
		on("image", v.Image != nil, func(at *field.Path) field.ErrorList {
			return append(required1(v.Image.Reference, at.Child("reference")), pullPolicies(v.Image.PullPolicy, at.Child("pullPolicy"))...)
		}),
	}
}

func validateEphemeralVolume(e *corev1.EphemeralVolumeSource, path *field.Path) field.ErrorList {
	t, at := e.VolumeClaimTemplate, path.Child("volumeClaimTemplate")
	if t == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	return append(TemplateMeta(&t.ObjectMeta, at.Child("metadata")), ClaimSpec(&t.Spec, at.Child("spec"))...)
}

// claimName checks the name of the claim that is made for an ephemeral volume of a pod.
func claimName(volume string, meta *metav1.ObjectMeta, at *field.Path) field.ErrorList {
	if meta == nil || meta.Name == "" || volume == "" {
		return nil
	}
	var errs field.ErrorList
	name := meta.Name + "-" + volume
	for _, msg := range validation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(at, volume, fmt.Sprintf("PVC name %q: %v", name, msg)))
	}
	return errs
}

func required1(value string, at *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

func requiredList(list []string, at *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

// secretName checks that a reference to a secret, if there is one, names it.
func secretName(ref *corev1.LocalObjectReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return required1(ref.Name, at.Child("secretRef", "name"))
}

// problems turns what a check of a text finds into errors.
func problems(value string, at *field.Path, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range check(value) {
		errs = append(errs, field.Invalid(at, value, msg))
	}
	return errs
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
