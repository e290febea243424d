package serviceaccount

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// limitSecrets refuses a pod that uses a secret which its account does not list.
func limitSecrets(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	mountable, pullable := map[string]bool{}, map[string]bool{}
	for _, s := range account.Secrets {
		mountable[s.Name] = true
	}
	for _, s := range account.ImagePullSecrets {
		pullable[s.Name] = true
	}
	err := visitContainersAndVolumes(pod, func(where, secret string) error {
		if mountable[secret] {
			return nil
		}
		return fmt.Errorf("%s secret.secretName=%q is not allowed because service account %s does not reference that secret",
			where, secret, account.Name)
	})
	if err != nil {
		return err
	}
	for i, s := range pod.Spec.ImagePullSecrets {
		if !pullable[s.Name] {
			return fmt.Errorf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret",
				i, s.Name, account.Name)
		}
	}
	return nil
}

// visitSecrets calls visit for every secret that a pod names, until it returns an error.
func visitSecrets(pod *corev1.Pod, visit func(where, secret string) error) error {
	for _, s := range pod.Spec.ImagePullSecrets {
		if err := visit("imagePullSecrets", s.Name); err != nil {
			return err
		}
	}
	return visitContainersAndVolumes(pod, visit)
}

func visitContainersAndVolumes(pod *corev1.Pod, visit func(where, secret string) error) error {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		for _, name := range volumeSecrets(v) {
			if err := visit("volume with", name); err != nil {
				return err
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if err := visitEnv("init container "+c.Name, c.Env, c.EnvFrom, visit); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if err := visitEnv("container "+c.Name, c.Env, c.EnvFrom, visit); err != nil {
			return err
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if err := visitEnv("ephemeral container "+c.Name, c.Env, c.EnvFrom, visit); err != nil {
			return err
		}
	}
	return nil
}

func visitEnv(container string, env []corev1.EnvVar, from []corev1.EnvFromSource, visit func(where, secret string) error) error {
	for i := range env {
		if source := env[i].ValueFrom; source != nil && source.SecretKeyRef != nil {
			if err := visit(fmt.Sprintf("%s with envVar %s referencing", container, env[i].Name), source.SecretKeyRef.Name); err != nil {
				return err
			}
		}
	}
	for i := range from {
		if from[i].SecretRef != nil {
			if err := visit(container+" with envFrom referencing", from[i].SecretRef.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// volumeSecrets names the secrets that a volume takes from the pod's namespace.
func volumeSecrets(v *corev1.Volume) []string {
	local := func(ref *corev1.LocalObjectReference) []string {
		if ref == nil {
			return nil
		}
		return []string{ref.Name}
	}
	switch {
	case v.Secret != nil:
		return []string{v.Secret.SecretName}
	case v.Projected != nil:
		var names []string
		for i := range v.Projected.Sources {
			if s := v.Projected.Sources[i].Secret; s != nil {
				names = append(names, s.Name)
			}
		}
		return names
	case v.AzureFile != nil:
		return []string{v.AzureFile.SecretName}
	case v.CephFS != nil:
		return local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return local(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		return local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		return local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		return local(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		return local(v.StorageOS.SecretRef)
	case v.CSI != nil:
		return local(v.CSI.NodePublishSecretRef)
	}
	return nil
}
