package kinds

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

func nodes() *Kind {
	return define(row[*corev1.Node]{
		Name: "Node", Resource: "nodes", ShortNames: []string{"no"}, Cluster: true, Prefix: "minions",
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultNode,
		Strategy: strategy[*corev1.Node]{
			// A kubelet creates its node with a status.
			PrepareCreate:       func(_ context.Context, n *corev1.Node) { core.PrepareNodeCreate(n) },
			PrepareUpdate:       func(_ context.Context, new, old *corev1.Node) { core.PrepareNodeUpdate(new, old) },
			Warnings:            core.NodeWarnings,
			Validate:            core.ValidateNode,
			ValidateAmong:       wholeFirst(whatever(core.ValidateNode), core.ValidateNodeChange),
			Canonicalize:        core.SyncPodCIDR,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*corev1.Node]{
			PrepareUpdate:  func(_ context.Context, new, old *corev1.Node) { core.PrepareNodeStatus(new, old) },
			ValidateUpdate: core.ValidateNodeChange,
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
