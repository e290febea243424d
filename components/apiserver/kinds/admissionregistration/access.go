package admissionregistration

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Access checks whether a user may read the parameters of a policy or binding: users without that permission must not
// learn of them by writing a policy
// (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#parameter-resources).
type Access struct {
	// Authorize returns the API's error if a user may not do something; nil allows everything.
	Authorize func(ctx context.Context, a authorizer.AttributesRecord) error
	// Resolve returns the resource of a kind.
	Resolve func(schema.GroupVersionKind) (schema.GroupVersionResource, error)
	// ParamKind returns the kind of parameters of the policy of that name, nil if it has none.
	ParamKind func(ctx context.Context, policy string) (*v1.ParamKind, error)
}

// Policy refuses a kind of parameters, if it changed, that the user may not read. old is nil for a new policy.
func (a Access) Policy(ctx context.Context, kind, old *v1.ParamKind) field.ErrorList {
	if kind == nil || old != nil && *old == *kind || a.Authorize == nil || privileged(ctx) {
		return nil
	}
	u, _ := request.UserFrom(ctx)
	attrs := authorizer.AttributesRecord{User: u, Verb: "get", Name: "*", Namespace: "*", ResourceRequest: true}
	a.name(&attrs, kind) // what can't be told is asked for as everything
	err := a.Authorize(ctx, attrs)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf(
			`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`,
			u,
			kind.Kind,
			kind.APIVersion,
		)
	}
	return refused(err, field.NewPath("spec", "paramKind"))
}

// The errors for users that may not read the parameters of a binding. Upstream's message for mutating policies has the
// two the other way round.
const (
	ValidatingRefusal = `user %[1]v does not have "%[2]v" permission on the object referenced by paramRef`
	MutatingRefusal   = `user %[2]v does not have "%[1]v" permission on the object referenced by paramRef`
)

// Binding refuses parameters that the user may not read. refusal is one of the texts above.
func (a Access) Binding(ctx context.Context, policy string, ref *v1.ParamRef, refusal string) field.ErrorList {
	if ref == nil || a.Authorize == nil || privileged(ctx) {
		return nil
	}
	u, _ := request.UserFrom(ctx)
	attrs := authorizer.AttributesRecord{User: u, Verb: "get", Name: ref.Name, Namespace: ref.Namespace,
		ResourceRequest: true}
	if ref.Name == "" {
		attrs.Verb = "list"
	}
	const everything = `to determine minimum required permissions and user %v does not have "%v" permission for all groups, versions and resources`
	missing := fmt.Errorf(refusal, u, attrs.Verb)
	kind, err := a.ParamKind(ctx, policy)
	if err != nil {
		missing = fmt.Errorf("unable to get policy %s "+everything, policy, u, attrs.Verb)
	}
	if !a.name(&attrs, kind) && kind != nil {
		missing = fmt.Errorf("unable to resolve paramKind &{%s %s} "+everything, kind.APIVersion, kind.Kind, u,
			attrs.Verb)
	}
	err = a.Authorize(ctx, attrs)
	if apierrors.IsForbidden(err) {
		err = missing
	}
	return refused(err, field.NewPath("spec", "paramRef"))
}

// name writes into a request what it is for: all that isn't known is everything.
func (a Access) name(attrs *authorizer.AttributesRecord, kind *v1.ParamKind) (known bool) {
	attrs.APIGroup, attrs.APIVersion, attrs.Resource = "*", "*", "*"
	if kind == nil {
		return false
	}
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return false
	}
	attrs.APIGroup, attrs.APIVersion = gv.Group, gv.Version
	r, err := a.Resolve(gv.WithKind(kind.Kind))
	if err != nil {
		return false
	}
	attrs.Resource = r.Resource
	return true
}

// privileged reports whether a request may do everything anyhow.
func privileged(ctx context.Context) bool {
	u, ok := request.UserFrom(ctx)
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

func refused(err error, at *field.Path) field.ErrorList {
	if err == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, err.Error())}
}
