package kinds

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

var nodeParts = parts[*corev1.Node, corev1.NodeSpec, corev1.NodeStatus]{
	spec:   func(n *corev1.Node) *corev1.NodeSpec { return &n.Spec },
	status: func(n *corev1.Node) *corev1.NodeStatus { return &n.Status },
}

func nodes() *Kind {
	return define(row[*corev1.Node]{
		Name: "Node", Resource: "nodes", ShortNames: []string{"no"}, Cluster: true, Prefix: "minions",
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultNode,
		Strategy: strategy[*corev1.Node]{
			Meta: MetaAll,
			// A kubelet creates its node with a status.
			PrepareUpdate:       nodeParts.keepStatus,
			Validate:            core.ValidateNode,
			ValidateUpdate:      core.ValidateNodeUpdate,
			Canonicalize:        core.SyncPodCIDR,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*corev1.Node]{
			PrepareUpdate:  nodeParts.statusUpdate,
			ValidateUpdate: core.ValidateNodeUpdate,
			Reset:          []string{"spec"},
		},
		Subresources: []Subresource{special("proxy", "create", "delete", "get", "patch", "update")},
		Columns:      core.NodeColumns(),
		Row:          core.NodeRow,
		Fields: map[string]func(*corev1.Node) string{
			"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
		},
	})
}
