package connect

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// chooseContainer is the container that was asked for, or the only one.
func chooseContainer(pod *corev1.Pod, asked string) (string, error) {
	var names, inits, ephemeral []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.InitContainers {
		inits = append(inits, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		ephemeral = append(ephemeral, c.Name)
	}
	if asked != "" {
		if slices.Contains(slices.Concat(names, inits, ephemeral), asked) {
			return asked, nil
		}
		return "", badRequest("container %s is not valid for pod %s", asked, pod.Name)
	}
	if len(names) == 1 {
		return names[0], nil
	}
	if len(names) == 0 {
		return "", badRequest("a container name must be specified for pod %s", pod.Name)
	}
	text := "a container name must be specified for pod %s, choose one of: [" + strings.Join(names, " ") + "]"
	if len(inits) > 0 {
		text += " or one of the init containers: [" + strings.Join(inits, " ") + "]"
	}
	return "", badRequest(text, pod.Name)
}
