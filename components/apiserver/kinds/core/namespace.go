package core

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var namespaceParts = api.Parts[*corev1.Namespace, corev1.NamespaceSpec, corev1.NamespaceStatus]{
	Spec:   func(n *corev1.Namespace) *corev1.NamespaceSpec { return &n.Spec },
	Status: func(n *corev1.Namespace) *corev1.NamespaceStatus { return &n.Status },
}

func namespaces() *api.Kind {
	finalize := api.Strategy[*corev1.Namespace]{
		PrepareUpdate:  namespaceParts.KeepStatus,
		ValidateUpdate: api.OfChange(ValidateNamespaceFinalize),
		Reset:          []string{"status"},
	}.Erase(corev1.SchemeGroupVersion)
	return api.Define(api.Row[*corev1.Namespace]{
		Name: "Namespace", Resource: "namespaces", ShortNames: []string{"ns"}, Cluster: true,
		Verbs:   []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		Hub:     corev1.SchemeGroupVersion,
		Default: DefaultNamespace,
		Strategy: api.Strategy[*corev1.Namespace]{
			Meta: api.MetaAllInOrder,
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
			Validate:            api.OfObject(ValidateNamespace),
			ValidateName:        validation.ValidateNamespaceName,
			Canonicalize:        DefaultNamespace, // a generated name was not known before
			UnconditionalUpdate: true,
			Terminate:           func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating },
			HasSpecFinalizers:   func(n *corev1.Namespace) bool { return len(n.Spec.Finalizers) > 0 },
			StorePreconditions:  true,
			ReturnDeleted:       true,
			DocumentStatus:      true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*corev1.Namespace]{
			PrepareUpdate:  namespaceParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateNamespaceStatusUpdate),
			Reset:          []string{"spec"},
		},
		Subresources: []api.Subresource{{Name: "finalize", Verbs: []string{"update"}, Strategy: &finalize}},
		Columns:      NamespaceColumns(),
		Row:          NamespaceRow,
		Fields: map[string]func(*corev1.Namespace) string{
			"status.phase": func(n *corev1.Namespace) string { return string(n.Status.Phase) },
		},
	})
}

// DefaultNamespace labels a namespace with its name; it is active unless it says otherwise.
func DefaultNamespace(n *corev1.Namespace) {
	if n.Status.Phase == "" {
		n.Status.Phase = corev1.NamespaceActive
	}
	if n.Name == "" || n.Labels[corev1.LabelMetadataName] == n.Name {
		return
	}
	n.Labels = maps.Clone(n.Labels) // others may have the map, too
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

// ValidateNamespace checks a new namespace.
func ValidateNamespace(n *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for _, f := range n.Spec.Finalizers {
		errs = append(errs, finalizerName(string(f), field.NewPath("spec", "finalizers"))...)
	}
	return errs
}

// ValidateNamespaceFinalize checks a change of the finalizers, through the subresource finalize.
func ValidateNamespaceFinalize(new, _ *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for i, f := range new.Spec.Finalizers {
		errs = append(errs, finalizerName(string(f), field.NewPath("spec", "finalizers").Index(i))...)
	}
	return errs
}

// ValidateNamespaceStatusUpdate ties the phase to the deletion.
func ValidateNamespaceStatusUpdate(new, _ *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "Phase")
	if new.DeletionTimestamp.IsZero() {
		if new.Status.Phase != corev1.NamespaceActive && new.Status.Phase != "" {
			return field.ErrorList{field.Invalid(path, new.Status.Phase,
				"may only be 'Active' if `deletionTimestamp` is empty")}
		}
	} else if new.Status.Phase != corev1.NamespaceTerminating {
		return field.ErrorList{field.Invalid(path, new.Status.Phase,
			"may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}

// finalizerName checks one of a namespace's spec.finalizers: a qualified name, with a domain unless it is a known one.
func finalizerName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	if !hasDomain(name) {
		switch name {
		case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		default:
			errs = append(errs, field.Invalid(path, name,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// NamespaceColumns are the columns of namespaces.
func NamespaceColumns() show.Columns {
	return show.Name().String("Status", "The status of the namespace").Age()
}

// NamespaceRow are the cells of a namespace.
func NamespaceRow(n *corev1.Namespace) []any {
	return []any{n.Name, string(n.Status.Phase), show.Age(n.CreationTimestamp)}
}
