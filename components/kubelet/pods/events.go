package pods

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/plan"
)

func (m *Manager) record(pod *v1.Pod, eventType, reason, message string) {
	if pod.Name != "" {
		m.Recorder.Event(reference(pod, ""), eventType, reason, message)
	}
}

func (m *Manager) recordContainer(pod *v1.Pod, c *v1.Container, eventType, reason, message string) {
	path := fmt.Sprintf("spec.containers{%s}", c.Name)
	if plan.IsInit(pod, c.Name) {
		path = fmt.Sprintf("spec.initContainers{%s}", c.Name)
	}
	if slices.ContainsFunc(pod.Spec.EphemeralContainers, func(e v1.EphemeralContainer) bool { return e.Name == c.Name }) {
		path = fmt.Sprintf("spec.ephemeralContainers{%s}", c.Name)
	}
	m.Recorder.Event(reference(pod, path), eventType, reason, message)
}

func reference(pod *v1.Pod, path string) *v1.ObjectReference {
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: path,
	}
}
