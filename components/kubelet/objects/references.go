package objects

import v1 "k8s.io/api/core/v1"

// references lists the config maps and secrets that pod's specification names.
func references(pod *v1.Pod) map[key]bool {
	found := map[key]bool{}
	add := func(kind Kind, name string) {
		if name != "" {
			found[key{kind, pod.Namespace, name}] = true
		}
	}
	for _, s := range pod.Spec.ImagePullSecrets {
		add(Secret, s.Name)
	}
	for i := range pod.Spec.Volumes {
		volume(&pod.Spec.Volumes[i], add)
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			environment(&list[i], add)
		}
	}
	return found
}

func volume(v *v1.Volume, add func(Kind, string)) {
	if v.ConfigMap != nil {
		add(ConfigMap, v.ConfigMap.Name)
	}
	if v.Secret != nil {
		add(Secret, v.Secret.SecretName)
	}
	if v.Projected == nil {
		return
	}
	for _, source := range v.Projected.Sources {
		if source.ConfigMap != nil {
			add(ConfigMap, source.ConfigMap.Name)
		}
		if source.Secret != nil {
			add(Secret, source.Secret.Name)
		}
	}
}

func environment(c *v1.Container, add func(Kind, string)) {
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			add(ConfigMap, from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil {
			add(Secret, from.SecretRef.Name)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if e.ValueFrom.ConfigMapKeyRef != nil {
			add(ConfigMap, e.ValueFrom.ConfigMapKeyRef.Name)
		}
		if e.ValueFrom.SecretKeyRef != nil {
			add(Secret, e.ValueFrom.SecretKeyRef.Name)
		}
	}
}
