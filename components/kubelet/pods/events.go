package pods

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/plan"
)

func (c *Config) record(pod *v1.Pod, eventType, reason, message string) {
	if pod.Name != "" {
		c.Recorder.Event(reference(pod, ""), eventType, reason, message)
	}
}

func (c *Config) recordContainer(pod *v1.Pod, container *v1.Container, eventType, reason, message string) {
	path := fmt.Sprintf("spec.containers{%s}", container.Name)
	if plan.IsInit(pod, container.Name) {
		path = fmt.Sprintf("spec.initContainers{%s}", container.Name)
	}
	ephemeral := func(e v1.EphemeralContainer) bool { return e.Name == container.Name }
	if slices.ContainsFunc(pod.Spec.EphemeralContainers, ephemeral) {
		path = fmt.Sprintf("spec.ephemeralContainers{%s}", container.Name)
	}
	c.Recorder.Event(reference(pod, path), eventType, reason, message)
}

func reference(pod *v1.Pod, path string) *v1.ObjectReference {
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: path,
	}
}
