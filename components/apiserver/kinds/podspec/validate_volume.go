package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// validateVolumes checks the volumes of a pod and returns those that containers may refer to, by name. meta is nil in
// templates.
func validateVolumes(list []corev1.Volume, old *oldState, meta *metav1.ObjectMeta,
	path *field.Path) (map[string]corev1.VolumeSource, field.ErrorList) {
	var errs field.ErrorList
	byName := map[string]corev1.VolumeSource{}
	made := claimsMade(list, meta)
	for i := range list {
		v, at := &list[i], path.Index(i)
		more := validateSource(v, old, meta, at)
		switch _, taken := byName[v.Name]; {
		case v.Name == "":
			more = append(more, field.Required(at.Child("name"), ""))
		case taken:
			more = append(more, field.Duplicate(at.Child("name"), v.Name))
		default:
			more = append(more, problems(v.Name, at.Child("name"), checks.Label)...)
		}
		if len(more) == 0 {
			byName[v.Name] = v.VolumeSource
		}
		errs = append(errs, more...)
		if c := v.PersistentVolumeClaim; c != nil && made[c.ClaimName] {
			errs = append(errs, field.Invalid(at.Child("persistentVolumeClaim", "claimName"), c.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return byName, errs
}

// claimsMade are the names of the claims that come to be for the ephemeral volumes of a pod; without its name they are
// not known.
func claimsMade(list []corev1.Volume, meta *metav1.ObjectMeta) map[string]bool {
	if meta == nil || meta.Name == "" {
		return nil
	}
	var names map[string]bool
	for i := range list {
		if list[i].Ephemeral == nil {
			continue
		}
		if names == nil {
			names = map[string]bool{}
		}
		names[meta.Name+"-"+list[i].Name] = true
	}
	return names
}

// member is one member of the union of volume types. Upstream calls some by another name where there are two of them
// (second) or where their own fields are named (path).
type member struct {
	name, second, path string
	set                func(*corev1.Volume) bool
	check              func(s *source, at *field.Path) field.ErrorList
	// named, if there is one, checks the volume's name, also if the type is one too many.
	named func(*source) field.ErrorList
}

// validateSource checks that the volume has one type, and that type's fields. The order is the one in which upstream
// looks: of two types the later one is the one too many.
func validateSource(v *corev1.Volume, old *oldState, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := false
	for i := range members {
		m := &members[i]
		if !m.set(v) {
			continue
		}
		s := &source{v, old, meta, path}
		if found {
			errs = append(errs, field.Forbidden(path.Child(or(m.second, m.name)),
				"may not specify more than 1 volume type"))
		} else {
			found = true
			errs = append(errs, m.check(s, path.Child(or(m.path, m.name)))...)
		}
		if m.named != nil {
			errs = append(errs, m.named(s)...)
		}
	}
	if !found {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	return errs
}

// source is a volume whose type is looked at.
type source struct {
	*corev1.Volume
	old  *oldState
	meta *metav1.ObjectMeta
	path *field.Path
}

var members = []member{
	{name: "emptyDir", set: func(v *corev1.Volume) bool { return v.EmptyDir != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return validateEmptyDir(s.EmptyDir, at) }},
	{name: "hostPath", set: func(v *corev1.Volume) bool { return v.HostPath != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return HostPath(s.HostPath, at) }},
	{name: "gitRepo", set: func(v *corev1.Volume) bool { return v.GitRepo != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return validateGitRepo(s.GitRepo, at) }},
	{name: "gcePersistentDisk", path: "persistentDisk",
		set:   func(v *corev1.Volume) bool { return v.GCEPersistentDisk != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return GCEPersistentDisk(s.GCEPersistentDisk, at) }},
	{name: "awsElasticBlockStore", set: func(v *corev1.Volume) bool { return v.AWSElasticBlockStore != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return AWSElasticBlockStore(s.AWSElasticBlockStore, at)
		}},
	{name: "secret", set: func(v *corev1.Volume) bool { return v.Secret != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return validateSecretVolume(s.Secret, at) }},
	{name: "nfs", set: func(v *corev1.Volume) bool { return v.NFS != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return NFS(s.NFS, at) }},
	{name: "iscsi", set: func(v *corev1.Volume) bool { return v.ISCSI != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return validateISCSI(s.ISCSI, at) },
		named: validateISCSIName},
	{name: "glusterfs", set: func(v *corev1.Volume) bool { return v.Glusterfs != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return append(required1(s.Glusterfs.EndpointsName, at.Child("endpoints")),
				required1(s.Glusterfs.Path, at.Child("path"))...)
		}},
	{name: "flocker", set: func(v *corev1.Volume) bool { return v.Flocker != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return Flocker(s.Flocker, at) }},
	{name: "persistentVolumeClaim", set: func(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return required1(s.PersistentVolumeClaim.ClaimName, at.Child("claimName"))
		}},
	{name: "rbd", set: func(v *corev1.Volume) bool { return v.RBD != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return append(requiredList(s.RBD.CephMonitors, at.Child("monitors")),
				required1(s.RBD.RBDImage, at.Child("image"))...)
		}},
	{name: "cinder", set: func(v *corev1.Volume) bool { return v.Cinder != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return append(required1(s.Cinder.VolumeID, at.Child("volumeID")), secretName(s.Cinder.SecretRef, at)...)
		}},
	{name: "cephfs", second: "cephFS", set: func(v *corev1.Volume) bool { return v.CephFS != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return requiredList(s.CephFS.Monitors, at.Child("monitors"))
		}},
	{name: "quobyte", set: func(v *corev1.Volume) bool { return v.Quobyte != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return Quobyte(s.Quobyte, at) }},
	{name: "downwardAPI", second: "downwarAPI", set: func(v *corev1.Volume) bool { return v.DownwardAPI != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return validateDownward(s.DownwardAPI, at) }},
	{name: "fc", set: func(v *corev1.Volume) bool { return v.FC != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return FC(s.FC, at) }},
	{name: "flexVolume", set: func(v *corev1.Volume) bool { return v.FlexVolume != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return FlexVolume(s.FlexVolume.Driver, s.FlexVolume.Options, at)
		}},
	{name: "configMap", set: func(v *corev1.Volume) bool { return v.ConfigMap != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return validateConfigMapVolume(s.ConfigMap, at) }},
	{name: "azureFile", set: func(v *corev1.Volume) bool { return v.AzureFile != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return append(required1(s.AzureFile.SecretName, at.Child("secretName")),
				required1(s.AzureFile.ShareName, at.Child("shareName"))...)
		}},
	{name: "vsphereVolume", set: func(v *corev1.Volume) bool { return v.VsphereVolume != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return required1(s.VsphereVolume.VolumePath, at.Child("volumePath"))
		}},
	{name: "photonPersistentDisk", set: func(v *corev1.Volume) bool { return v.PhotonPersistentDisk != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return required1(s.PhotonPersistentDisk.PdID, at.Child("pdID"))
		}},
	{name: "portworxVolume", set: func(v *corev1.Volume) bool { return v.PortworxVolume != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return required1(s.PortworxVolume.VolumeID, at.Child("volumeID"))
		}},
	{name: "azureDisk", set: func(v *corev1.Volume) bool { return v.AzureDisk != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return AzureDisk(s.AzureDisk, at) }},
	{name: "storageos", set: func(v *corev1.Volume) bool { return v.StorageOS != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return validateStorageOS(s.StorageOS, at) }},
	{name: "projected", set: func(v *corev1.Volume) bool { return v.Projected != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return validateProjected(s.Projected, s.old, at) }},
	{name: "scaleIO", set: func(v *corev1.Volume) bool { return v.ScaleIO != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return ScaleIO(s.ScaleIO.Gateway, s.ScaleIO.System, s.ScaleIO.VolumeName, at)
		}},
	{name: "csi", set: func(v *corev1.Volume) bool { return v.CSI != nil },
		check: func(s *source, at *field.Path) field.ErrorList { return validateCSI(s.CSI, at) }},
	{name: "ephemeral", set: func(v *corev1.Volume) bool { return v.Ephemeral != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			return append(validateEphemeralVolume(s.Ephemeral, at), claimName(s.Name, s.meta, s.path.Child("name"))...)
		}},
	{name: "image", set: func(v *corev1.Volume) bool { return v.Image != nil },
		check: func(s *source, at *field.Path) field.ErrorList {
			errs := pullPolicies(s.Image.PullPolicy, at.Child("pullPolicy"))
			if s.meta != nil { // a template may leave it to the creator of the pod
				errs = append(required1(s.Image.Reference, at.Child("reference")), errs...)
			}
			return errs
		}},
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
