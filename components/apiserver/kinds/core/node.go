package core

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func nodes() *api.Kind {
	return api.Define(api.Row[*corev1.Node]{
		Name: "Node", Resource: "nodes", ShortNames: []string{"no"}, Cluster: true, Prefix: "minions",
		Hub:     corev1.SchemeGroupVersion,
		Default: DefaultNode,
		Strategy: api.Strategy[*corev1.Node]{
			// A kubelet creates its node with a status.
			PrepareCreate:       func(_ context.Context, n *corev1.Node) { PrepareNodeCreate(n) },
			PrepareUpdate:       func(_ context.Context, new, old *corev1.Node) { PrepareNodeUpdate(new, old) },
			Warnings:            api.OfChange(NodeWarnings),
			Validate:            api.OfObject(ValidateNode),
			ValidateAmong:       api.WholeFirst(api.IgnoreOld(ValidateNode), ValidateNodeChange),
			Canonicalize:        SyncPodCIDR,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*corev1.Node]{
			PrepareUpdate:  func(_ context.Context, new, old *corev1.Node) { PrepareNodeStatus(new, old) },
			ValidateUpdate: api.OfChange(ValidateNodeChange),
			Reset:          []string{"spec"},
		},
		Subresources: []api.Subresource{api.Handled("proxy", "create", "delete", "get", "patch", "update")},
		Columns:      NodeColumns(),
		Row:          NodeRow,
		Fields: map[string]func(*corev1.Node) string{
			"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
		},
	})
}
