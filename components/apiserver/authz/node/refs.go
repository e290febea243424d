package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// podRefs lists what a pod needs besides itself. A mirror pod needs nothing: it is written by the node, which must not
// be able to grant itself access by naming things in it.
func podRefs(p *corev1.Pod) []ref {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return nil
	}
	return named(p)
}

func named(p *corev1.Pod) []ref {
	c := &collector{namespace: p.Namespace}
	if p.Spec.ServiceAccountName != "" {
		c.add(serviceAccount, p.Spec.ServiceAccountName)
	}
	for _, s := range p.Spec.ImagePullSecrets {
		c.add(secret, s.Name)
	}
	for i := range p.Spec.InitContainers {
		c.container(p.Spec.InitContainers[i].Env, p.Spec.InitContainers[i].EnvFrom)
	}
	for i := range p.Spec.Containers {
		c.container(p.Spec.Containers[i].Env, p.Spec.Containers[i].EnvFrom)
	}
	for i := range p.Spec.EphemeralContainers {
		c.container(p.Spec.EphemeralContainers[i].Env, p.Spec.EphemeralContainers[i].EnvFrom)
	}
	for i := range p.Spec.Volumes {
		c.volume(p.Name, &p.Spec.Volumes[i])
	}
	for _, rc := range p.Spec.ResourceClaims {
		c.add(resourceClaim, deref(rc.ResourceClaimName))
	}
	for _, rc := range p.Status.ResourceClaimStatuses {
		c.add(resourceClaim, deref(rc.ResourceClaimName))
	}
	c.add(resourceClaim, extendedClaim(p))
	return c.refs
}

// extendedClaim is the name of the claim that was made for what a pod wants of extended resources; "" if there is none.
func extendedClaim(p *corev1.Pod) string {
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		return s.ResourceClaimName
	}
	return ""
}

// collector gathers references of one namespace, each once.
type collector struct {
	namespace string
	refs      []ref
}

func (c *collector) add(k kind, name string) { c.addIn(k, c.namespace, name) }

func (c *collector) addIn(k kind, namespace, name string) {
	r := ref{k, namespace, name}
	if name != "" && !slices.Contains(c.refs, r) {
		c.refs = append(c.refs, r)
	}
}

func (c *collector) addLocal(l *corev1.LocalObjectReference) {
	if l != nil {
		c.add(secret, l.Name)
	}
}

func (c *collector) container(env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for i := range from {
		if from[i].SecretRef != nil {
			c.add(secret, from[i].SecretRef.Name)
		}
		if from[i].ConfigMapRef != nil {
			c.add(configMap, from[i].ConfigMapRef.Name)
		}
	}
	for i := range env {
		v := env[i].ValueFrom
		if v != nil && v.SecretKeyRef != nil {
			c.add(secret, v.SecretKeyRef.Name)
		}
		if v != nil && v.ConfigMapKeyRef != nil {
			c.add(configMap, v.ConfigMapKeyRef.Name)
		}
	}
}

func (c *collector) volume(podName string, v *corev1.Volume) {
	switch {
	case v.Secret != nil:
		c.add(secret, v.Secret.SecretName)
	case v.ConfigMap != nil:
		c.add(configMap, v.ConfigMap.Name)
	case v.PersistentVolumeClaim != nil:
		c.add(claim, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		c.add(claim, podName+"-"+v.Name)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			s := &v.Projected.Sources[i]
			if s.Secret != nil {
				c.add(secret, s.Secret.Name)
			}
			if s.ConfigMap != nil {
				c.add(configMap, s.ConfigMap.Name)
			}
		}
	case v.AzureFile != nil:
		c.add(secret, v.AzureFile.SecretName)
	case v.CephFS != nil:
		c.addLocal(v.CephFS.SecretRef)
	case v.Cinder != nil:
		c.addLocal(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		c.addLocal(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		c.addLocal(v.ISCSI.SecretRef)
	case v.RBD != nil:
		c.addLocal(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		c.addLocal(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		c.addLocal(v.StorageOS.SecretRef)
	case v.CSI != nil:
		c.addLocal(v.CSI.NodePublishSecretRef)
	}
}

// volumeSecrets lists the secrets of a persistent volume that the kubelet itself reads; those of controllers are not
// among them. Where a source names no namespace, the claim's counts.
func volumeSecrets(pv *corev1.PersistentVolume) []ref {
	c := &collector{namespace: pv.Spec.ClaimRef.Namespace}
	addRef := func(s *corev1.SecretReference) {
		if s == nil {
			return
		}
		namespace := s.Namespace
		if namespace == "" {
			namespace = c.namespace
		}
		c.addIn(secret, namespace, s.Name)
	}
	src := &pv.Spec.PersistentVolumeSource
	switch {
	case src.AzureFile != nil:
		addRef(&corev1.SecretReference{Name: src.AzureFile.SecretName, Namespace: deref(src.AzureFile.SecretNamespace)})
	case src.CephFS != nil:
		addRef(src.CephFS.SecretRef)
	case src.Cinder != nil:
		addRef(src.Cinder.SecretRef)
	case src.FlexVolume != nil:
		addRef(src.FlexVolume.SecretRef)
	case src.ISCSI != nil:
		addRef(src.ISCSI.SecretRef)
	case src.RBD != nil:
		addRef(src.RBD.SecretRef)
	case src.ScaleIO != nil:
		addRef(src.ScaleIO.SecretRef)
	case src.StorageOS != nil:
		if s := src.StorageOS.SecretRef; s != nil {
			addRef(&corev1.SecretReference{Name: s.Name, Namespace: s.Namespace})
		}
	case src.CSI != nil:
		addRef(src.CSI.NodePublishSecretRef)
		addRef(src.CSI.NodeStageSecretRef)
		addRef(src.CSI.NodeExpandSecretRef)
	}
	return c.refs
}
