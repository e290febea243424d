package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Refers tells what kind of API object a pod names, in words for a message: the first of a fixed order; "" if it names
// none. What is not known might name one, too, and is an error.
func Refers(p *corev1.Pod) (string, error) {
	found := map[kind]bool{}
	for _, r := range named(p) {
		found[r.kind] = true
	}
	switch {
	case found[serviceAccount]:
		return "serviceaccounts", nil
	case found[secret]:
		return "secrets", nil
	case found[configMap]:
		return "configmaps", nil
	case len(p.Spec.ResourceClaims) > 0:
		return "resourceclaims", nil
	}
	for i := range p.Spec.Volumes {
		if what, err := volumeRefers(&p.Spec.Volumes[i]); what != "" || err != nil {
			return what, err
		}
	}
	return "", nil
}

// volumeRefers is for the volumes of a pod that names no secret and no config map: what is left are those without a
// name, and what the kubelet looks up for the volume itself.
func volumeRefers(v *corev1.Volume) (string, error) {
	switch {
	case standsAlone(&v.VolumeSource):
		return "", nil
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)", nil
	case v.Secret != nil:
		return "secrets (via secret volumes)", nil
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)", nil
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			what, known := projectionRefers(&v.Projected.Sources[i])
			if !known {
				return "", fmt.Errorf("unknown source for projected volume %q", v.Name)
			}
			if what != "" {
				return what, nil
			}
		}
		return "", nil
	}
	return "", fmt.Errorf("unknown volume type for volume  %q", v.Name)
}

// standsAlone: such volumes need nothing of the API but the secrets that they name.
func standsAlone(s *corev1.VolumeSource) bool {
	return s.AWSElasticBlockStore != nil || s.AzureDisk != nil || s.CephFS != nil || s.Cinder != nil ||
		s.DownwardAPI != nil || s.EmptyDir != nil ||
		s.FC != nil || s.FlexVolume != nil || s.Flocker != nil || s.GCEPersistentDisk != nil || s.GitRepo != nil ||
		s.HostPath != nil || s.Image != nil ||
		s.ISCSI != nil || s.NFS != nil || s.PhotonPersistentDisk != nil || s.PortworxVolume != nil ||
		s.Quobyte != nil || s.RBD != nil ||
		s.ScaleIO != nil || s.StorageOS != nil || s.VsphereVolume != nil
}

func projectionRefers(s *corev1.VolumeProjection) (what string, known bool) {
	switch {
	case s.ConfigMap != nil:
		return "configmaps (via projected volumes)", true
	case s.Secret != nil:
		return "secrets (via projected volumes)", true
	case s.ServiceAccountToken != nil:
		return "serviceaccounts (via projected volumes)", true
	case s.ClusterTrustBundle != nil:
		return "clustertrustbundles", true
	case s.PodCertificate != nil:
		return "podcertificates", true
	}
	return "", s.DownwardAPI != nil
}
