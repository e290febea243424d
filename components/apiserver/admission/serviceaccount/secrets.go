package serviceaccount

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// limitSecrets refuses a pod that uses a secret which its account does not list. Of volumes only those of type secret
// count.
func limitSecrets(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	check := mountable(account)
	for i := range pod.Spec.Volumes {
		if s := pod.Spec.Volumes[i].Secret; s != nil {
			if err := check("volume with", s.SecretName); err != nil {
				return err
			}
		}
	}
	for _, containers := range []struct {
		kind string
		list []corev1.Container
	}{{"init container ", pod.Spec.InitContainers}, {"container ", pod.Spec.Containers}} {
		for i := range containers.list {
			c := &containers.list[i]
			if err := visitEnv(containers.kind+c.Name, c.Env, c.EnvFrom, check); err != nil {
				return err
			}
		}
	}
	for i, s := range pod.Spec.ImagePullSecrets {
		if !slices.Contains(account.ImagePullSecrets, s) {
			return fmt.Errorf("imagePullSecrets[%d].name=\"%s\" is not allowed because service account %s does not reference "+
				"that imagePullSecret",
				i, s.Name, account.Name)
		}
	}
	return nil
}

// limitEphemeral is limitSecrets for the containers that a pod gets later: the rest of it has been let in.
func limitEphemeral(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	check := mountable(account)
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if err := visitEnv("ephemeral container "+c.Name, c.Env, c.EnvFrom, check); err != nil {
			return err
		}
	}
	return nil
}

// mountable returns what refuses a secret that an account does not list.
func mountable(account *corev1.ServiceAccount) func(where, secret string) error {
	return func(where, secret string) error {
		if slices.ContainsFunc(account.Secrets, func(s corev1.ObjectReference) bool { return s.Name == secret }) {
			return nil
		}
		return fmt.Errorf("%s secret.secretName=\"%s\" is not allowed because service account %s does not reference that "+
			"secret", where, secret, account.Name)
	}
}

func visitEnv(container string, env []corev1.EnvVar, from []corev1.EnvFromSource,
	visit func(where, secret string) error) error {
	for i := range env {
		if source := env[i].ValueFrom; source != nil && source.SecretKeyRef != nil {
			if err := visit(fmt.Sprintf("%s with envVar %s referencing", container, env[i].Name),
				source.SecretKeyRef.Name); err != nil {
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

// namesSecret tells whether a pod uses any secret of its namespace, through whatever field.
func namesSecret(pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Spec.ImagePullSecrets,
		func(s corev1.LocalObjectReference) bool { return s.Name != "" }) {
		return true
	}
	found := false
	visit := func(_, name string) error {
		found = found || name != ""
		return nil
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			_ = visitEnv("", containers[i].Env, containers[i].EnvFrom, visit)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		_ = visitEnv("", pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom, visit)
	}
	for i := range pod.Spec.Volumes {
		found = found || slices.ContainsFunc(volumeSecrets(&pod.Spec.Volumes[i]),
			func(name string) bool { return name != "" })
	}
	return found
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
