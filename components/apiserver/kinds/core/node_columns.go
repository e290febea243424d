package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// Labels that make a node's roles.
const (
	rolePrefix = "node-role.kubernetes.io/"
	roleLabel  = "kubernetes.io/role"
)

// DefaultNode makes the two forms of the pod CIDR agree, and what isn't said to be allocatable the whole capacity.
func DefaultNode(n *corev1.Node) {
	SyncPodCIDR(n)
	podspec.RoundUp(n.Status.Capacity)
	podspec.RoundUp(n.Status.Allocatable)
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
}

// NodeColumns are the columns of nodes.
func NodeColumns() show.Columns {
	info := corev1.NodeSystemInfo{}.SwaggerDoc()
	status := corev1.NodeStatus{}.SwaggerDoc()
	return show.Name().
		String("Status", "The status of the node").
		String("Roles", "The roles of the node").
		Age().
		String("Version", info["kubeletVersion"]).
		Wide("Internal-IP", status["addresses"]).
		Wide("External-IP", status["addresses"]).
		Wide("OS-Image", info["osImage"]).
		Wide("Kernel-Version", info["kernelVersion"]).
		Wide("Container-Runtime", info["containerRuntimeVersion"])
}

// NodeRow are the cells of a node.
func NodeRow(n *corev1.Node) []any {
	info := &n.Status.NodeInfo
	kernel := orUnknown(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		n.Name, nodeStatus(n), nodeRoles(n), show.Age(n.CreationTimestamp), info.KubeletVersion,
		address(n, corev1.NodeInternalIP), address(n, corev1.NodeExternalIP),
		orUnknown(info.OSImage), kernel, orUnknown(info.ContainerRuntimeVersion),
	}
}

func orUnknown(s string) string {
	if s == "" {
		return show.Unknown
	}
	return s
}

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		status = "NotReady"
		if c.Status == corev1.ConditionTrue {
			status = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(n *corev1.Node) string {
	var roles []string
	for key, value := range n.Labels {
		if role, ok := strings.CutPrefix(key, rolePrefix); ok && role != "" {
			roles = append(roles, role)
		} else if key == roleLabel && value != "" {
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	return show.Join(slices.Compact(roles), ",")
}

func address(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return show.None
}
