package connect

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// chooseContainer is the container that was asked for, or the only one.
func chooseContainer(pod *corev1.Pod, asked string) (string, error) {
	var all []string
	for i := range pod.Spec.InitContainers {
		all = append(all, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		all = append(all, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		all = append(all, pod.Spec.EphemeralContainers[i].Name)
	}
	switch {
	case asked != "" && !slices.Contains(all, asked):
		return "", badRequest("container %s is not valid for pod %s", asked, pod.Name)
	case asked != "":
		return asked, nil
	case len(pod.Spec.Containers) == 1:
		return pod.Spec.Containers[0].Name, nil
	case len(pod.Spec.Containers) == 0:
		return "", badRequest("a container name must be specified for pod %s", pod.Name)
	}
	return "", badRequest("a container name must be specified for pod %s, choose one of: %s", pod.Name, all)
}
