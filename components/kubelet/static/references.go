package static

import (
	v1 "k8s.io/api/core/v1"
)

// reference names the kind of API objects that the pod refers to, "" if to none: a static pod is to run without an API
// server, and the author of a manifest needs no right to read the objects.
func reference(pod *v1.Pod) string {
	spec := &pod.Spec
	if spec.ServiceAccountName != "" {
		return "serviceaccounts"
	}
	if len(spec.ImagePullSecrets) > 0 {
		return "secrets"
	}
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if what := environment(&list[i]); what != "" {
				return what
			}
		}
	}
	if len(spec.ResourceClaims) > 0 {
		return "resourceclaims"
	}
	for i := range spec.Volumes {
		if what := source(&spec.Volumes[i]); what != "" {
			return what
		}
	}
	return ""
}

func environment(c *v1.Container) string {
	for i := range c.EnvFrom {
		switch {
		case c.EnvFrom[i].SecretRef != nil:
			return "secrets"
		case c.EnvFrom[i].ConfigMapRef != nil:
			return "configmaps"
		}
	}
	for i := range c.Env {
		switch from := c.Env[i].ValueFrom; {
		case from == nil:
		case from.SecretKeyRef != nil:
			return "secrets"
		case from.ConfigMapKeyRef != nil:
			return "configmaps"
		}
	}
	return ""
}

func source(v *v1.Volume) string {
	switch {
	case v.Secret != nil, v.AzureFile != nil, secretOf(v):
		return "secrets"
	case v.ConfigMap != nil:
		return "configmaps"
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		return "persistentvolumeclaims"
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			switch s := &v.Projected.Sources[i]; {
			case s.Secret != nil:
				return "secrets"
			case s.ConfigMap != nil:
				return "configmaps"
			case s.ServiceAccountToken != nil:
				return "serviceaccounts"
			case s.ClusterTrustBundle != nil:
				return "clustertrustbundles"
			case s.PodCertificate != nil:
				return "podcertificates"
			}
		}
	}
	return ""
}

// secretOf tells a volume whose driver is handed a secret.
func secretOf(v *v1.Volume) bool {
	switch {
	case v.CephFS != nil:
		return v.CephFS.SecretRef != nil
	case v.Cinder != nil:
		return v.Cinder.SecretRef != nil
	case v.FlexVolume != nil:
		return v.FlexVolume.SecretRef != nil
	case v.ISCSI != nil:
		return v.ISCSI.SecretRef != nil
	case v.RBD != nil:
		return v.RBD.SecretRef != nil
	case v.ScaleIO != nil:
		return v.ScaleIO.SecretRef != nil
	case v.StorageOS != nil:
		return v.StorageOS.SecretRef != nil
	case v.CSI != nil:
		return v.CSI.NodePublishSecretRef != nil
	}
	return false
}
