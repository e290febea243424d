package spec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Reasons of pods that are not admitted, as upstream's kubelet gives them.
const (
	reasonGroupsPolicy = "SupplementalGroupsPolicyNotSupported"
	reasonFeature      = "PodFeatureUnsupported"
)

// Unsupported names the first thing that the pod asks for and the engine can't give, and the reason of
// the refusal; there is none, "", for most pods. A pod is better not started than started without what it counts on. An
// engine that simulates processes gives everything.
func (b *Builder) Unsupported(pod *v1.Pod) (reason, message string) {
	if b.Simulated.Processes {
		return "", ""
	}
	spec := &pod.Spec
	if sc := spec.SecurityContext; sc != nil && sc.SupplementalGroupsPolicy != nil &&
		*sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict {
		return reasonGroupsPolicy, fmt.Sprintf("SupplementalGroupsPolicy=%s is not supported in this node",
			*sc.SupplementalGroupsPolicy)
	}
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"spec.hostUsers: false (user namespaces)", spec.HostUsers != nil && !*spec.HostUsers},
		{"spec.runtimeClassName", b.RuntimeHandler == nil && spec.RuntimeClassName != nil && *spec.RuntimeClassName != ""},
	} {
		if field.set {
			return reasonFeature, field.name + " is not supported by this node"
		}
	}
	return "", ""
}
