// Package always has the two plug-ins that ask nothing
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#alwaysadmit and #alwaysdeny). Both
// are deprecated: one has no effect, and the other leaves nothing that has one.
package always

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/admission"
)

// The plug-ins' names.
const (
	AdmitName = "AlwaysAdmit"
	DenyName  = "AlwaysDeny"
)

func every() *admission.Handler {
	return admission.NewHandler(admission.Create, admission.Update, admission.Delete, admission.Connect)
}

// Admit lets everything pass.
type Admit struct{ *admission.Handler }

var (
	_ admission.MutationInterface   = Admit{}
	_ admission.ValidationInterface = Admit{}
)

// NewAdmit returns the plug-in.
func NewAdmit() Admit { return Admit{every()} }

// Admit implements admission.MutationInterface.
func (Admit) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

// Validate implements admission.ValidationInterface.
func (Admit) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

// Deny refuses everything.
type Deny struct{ *admission.Handler }

var (
	_ admission.MutationInterface   = Deny{}
	_ admission.ValidationInterface = Deny{}
)

// NewDeny returns the plug-in.
func NewDeny() Deny { return Deny{every()} }

// Admit implements admission.MutationInterface.
func (Deny) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errors.New("admission control is denying all modifications"))
}

// Validate implements admission.ValidationInterface.
func (d Deny) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return d.Admit(ctx, a, o)
}
