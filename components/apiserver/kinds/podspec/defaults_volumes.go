package podspec

import corev1 "k8s.io/api/core/v1"

func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		setDefault(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Secret != nil {
		setDefault(&v.Secret.DefaultMode, fileMode)
	}
	if v.ConfigMap != nil {
		setDefault(&v.ConfigMap.DefaultMode, fileMode)
	}
	if v.DownwardAPI != nil {
		setDefault(&v.DownwardAPI.DefaultMode, fileMode)
		defaultDownward(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		DefaultClaimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
	if v.Image != nil && v.Image.PullPolicy == "" {
		v.Image.PullPolicy = pullPolicy(v.Image.Reference)
	}
	defaultNetworkVolume(v)
}

func defaultNetworkVolume(v *corev1.Volume) {
	if v.ISCSI != nil {
		setString(&v.ISCSI.ISCSIInterface, "default")
	}
	if v.RBD != nil {
		setString(&v.RBD.RBDPool, "rbd")
		setString(&v.RBD.RadosUser, "admin")
		setString(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	if v.AzureDisk != nil {
		DefaultAzureDisk(v.AzureDisk)
	}
	if v.ScaleIO != nil {
		setString(&v.ScaleIO.StorageMode, "ThinProvisioned")
		setString(&v.ScaleIO.FSType, "xfs")
	}
}

// DefaultAzureDisk sets the defaults of an Azure disk, in pods and in persistent volumes.
func DefaultAzureDisk(d *corev1.AzureDiskVolumeSource) {
	setDefault(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	setDefault(&d.Kind, corev1.AzureSharedBlobDisk)
	setDefault(&d.FSType, "ext4")
	setDefault(&d.ReadOnly, false)
}

// DefaultClaimSpec sets the defaults of a persistent volume claim, also where it stands in a template.
func DefaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	setDefault(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	RoundUp(spec.Resources.Limits)
	RoundUp(spec.Resources.Requests)
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	setDefault(&p.DefaultMode, fileMode)
	for i := range p.Sources {
		s := &p.Sources[i]
		if s.ServiceAccountToken != nil {
			setDefault(&s.ServiceAccountToken.ExpirationSeconds, int64(60*60))
		}
		if s.DownwardAPI != nil {
			defaultDownward(s.DownwardAPI.Items)
		}
	}
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if ref := items[i].FieldRef; ref != nil {
			setString(&ref.APIVersion, "v1")
		}
	}
}
