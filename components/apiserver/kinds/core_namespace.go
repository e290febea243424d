package kinds

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

var namespaceParts = parts[*corev1.Namespace, corev1.NamespaceSpec, corev1.NamespaceStatus]{
	spec:   func(n *corev1.Namespace) *corev1.NamespaceSpec { return &n.Spec },
	status: func(n *corev1.Namespace) *corev1.NamespaceStatus { return &n.Status },
}

func namespaces() *Kind {
	finalize := strategy[*corev1.Namespace]{
		PrepareUpdate:  namespaceParts.keepStatus,
		ValidateUpdate: core.ValidateNamespaceFinalize,
		Reset:          []string{"status"},
	}.erase([]Version{{GroupVersion: corev1.SchemeGroupVersion}})
	return define(row[*corev1.Namespace]{
		Name: "Namespace", Resource: "namespaces", ShortNames: []string{"ns"}, Cluster: true,
		Verbs:   []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultNamespace,
		Strategy: strategy[*corev1.Namespace]{
			Meta: MetaAllInOrder,
			PrepareCreate: func(_ context.Context, n *corev1.Namespace) {
				n.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
				if !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
					n.Spec.Finalizers = append(slices.Clone(n.Spec.Finalizers), corev1.FinalizerKubernetes)
				}
			},
			PrepareUpdate: func(_ context.Context, new, old *corev1.Namespace) {
				new.Spec.Finalizers = old.Spec.Finalizers
				new.Status = old.Status
			},
			Validate:            core.ValidateNamespace,
			ValidateName:        validation.ValidateNamespaceName,
			Canonicalize:        core.DefaultNamespace, // a generated name was not known before
			UnconditionalUpdate: true,
			Terminate:           func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating },
			Held:                func(n *corev1.Namespace) bool { return len(n.Spec.Finalizers) > 0 },
			StorePreconditions:  true,
			ReturnDeleted:       true,
			DocumentStatus:      true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*corev1.Namespace]{
			PrepareUpdate:  namespaceParts.statusUpdate,
			ValidateUpdate: core.ValidateNamespaceStatusUpdate,
			Reset:          []string{"spec"},
		},
		Subresources: []Subresource{{Name: "finalize", Verbs: []string{"update"}, Strategy: &finalize}},
		Columns:      core.NamespaceColumns(),
		Row:          core.NamespaceRow,
		Fields: map[string]func(*corev1.Namespace) string{
			"status.phase": func(n *corev1.Namespace) string { return string(n.Status.Phase) },
		},
	})
}
