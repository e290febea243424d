package core

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

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

// ValidateNamespaceFinalize checks a change of the finalizers, through their own door.
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
			errs = append(errs, field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
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
