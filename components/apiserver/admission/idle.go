package admission

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
)

// Plug-ins of Kubernetes that act on kinds, or fields, behind feature gates that are off. Nothing is left for them to
// do, but as with upstream they are there, and show in the metrics.
const (
	podGroupProtection     = "PodGroupProtection"
	podGroupWorkloadExists = "PodGroupWorkloadExists"
	jobValidation          = "JobValidation"
)

// idleMutator and idleValidator are plug-ins that let everything pass.
type (
	idleMutator   struct{ admission.Interface }
	idleValidator struct{ admission.Interface }
)

// idle takes the place of a plug-in whose feature is off: it handles the same operations, in the same steps.
func idle(p admission.Interface) admission.Interface {
	if _, ok := p.(admission.MutationInterface); ok {
		return idleMutator{p}
	}
	return idleValidator{p}
}

// Admit implements admission.MutationInterface.
func (idleMutator) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

// Validate implements admission.ValidationInterface.
func (idleValidator) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}
