package spec

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/plan"
)

// Reasons of pods that are not admitted, as upstream's kubelet gives them.
const (
	reasonGroupsPolicy = "SupplementalGroupsPolicyNotSupported"
	reasonAppArmor     = "AppArmor"
)

// Unsupported names what a pod asks for that keeps it from being admitted, as the engine can't give it, and the reason
// of the refusal; there is none, "", for most pods. An engine that simulates processes gives everything.
func (b *Builder) Unsupported(pod *v1.Pod) (reason, message string) {
	sc := pod.Spec.SecurityContext
	switch {
	case b.Simulated.Processes:
		return "", ""
	case !b.StrictGroups && strictGroups(sc):
		return reasonGroupsPolicy, fmt.Sprintf("SupplementalGroupsPolicy=%s is not supported in this node",
			*sc.SupplementalGroupsPolicy)
	case !b.AppArmor && confined(pod):
		return reasonAppArmor, "Cannot enforce AppArmor: AppArmor is not enabled on the host"
	}
	return "", ""
}

// confined tells that a container of the pod is to have a profile of AppArmor.
func confined(pod *v1.Pod) bool {
	demands := func(p *v1.AppArmorProfile) bool { return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined }
	if sc := pod.Spec.SecurityContext; sc != nil && demands(sc.AppArmorProfile) {
		return true
	}
	return slices.ContainsFunc(plan.Containers(pod), func(c *v1.Container) bool {
		return c.SecurityContext != nil && demands(c.SecurityContext.AppArmorProfile)
	})
}

func strictGroups(c *v1.PodSecurityContext) bool {
	return c != nil && c.SupplementalGroupsPolicy != nil &&
		*c.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict
}

// checkUserNamespace returns upstream's error for a pod that must not have the users of the node: no engine that this
// kubelet drives has user namespaces, so that the sandbox of such a pod can't be made.
func (b *Builder) checkUserNamespace(pod *v1.Pod, handler string) error {
	switch {
	case b.Simulated.Processes || pod.Spec.HostUsers == nil || *pod.Spec.HostUsers:
		return nil
	case handler != "":
		return fmt.Errorf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces",
			handler)
	}
	return errors.New("can't set `spec.hostUsers: false`, runtime does not support user namespaces")
}
