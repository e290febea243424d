package spec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// unsupported names the first thing that the pod asks for and an engine of Docker's kind can't give. A pod is better
// not started than started without what it counts on. Runtimes that only pretend give everything.
func (b *Builder) unsupported(pod *v1.Pod) error {
	spec := &pod.Spec
	strict := spec.SecurityContext != nil && spec.SecurityContext.SupplementalGroupsPolicy != nil &&
		*spec.SecurityContext.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"spec.hostUsers: false (user namespaces)", spec.HostUsers != nil && !*spec.HostUsers},
		{"spec.runtimeClassName", spec.RuntimeClassName != nil && *spec.RuntimeClassName != ""},
		{"spec.resourceClaims", len(spec.ResourceClaims) > 0},
		{"spec.securityContext.supplementalGroupsPolicy: Strict", strict},
	} {
		if field.set && !b.Virtual {
			return fmt.Errorf("%s is not supported by this node", field.name)
		}
	}
	return nil
}
