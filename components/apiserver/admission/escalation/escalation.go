// Package escalation refuses writes of roles and bindings that would grant more than the writer has. It is always on
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping).
package escalation

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/admission/collection"
)

// Name is for messages; the plug-in can't be turned off.
const Name = "RBACEscalation"

// Checker decides what a user may grant.
type Checker interface {
	CheckRole(ctx context.Context, u user.Info, request authorizer.AttributesRecord, name string, rules []rbacv1.PolicyRule, aggregates bool) error
	CheckBinding(ctx context.Context, u user.Info, namespace, name string, ref rbacv1.RoleRef) error
}

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	checker Checker
}

var (
	_ admission.MutationInterface   = &Plugin{}
	_ admission.ValidationInterface = &Plugin{}
)

// New returns the plug-in.
func New(checker Checker) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), checker: checker}
}

// Admit implements admission.MutationInterface, so that it comes before validation; it changes nothing.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.check(ctx, a)
}

// Validate implements admission.ValidationInterface: a webhook may have added rules since.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.check(ctx, a)
}

func (p *Plugin) check(ctx context.Context, a admission.Attributes) error {
	if a.GetResource().Group != rbacv1.GroupName || a.GetSubresource() != "" || collection.Only(a.GetObject(), a.GetOldObject()) {
		return nil
	}
	switch obj := a.GetObject().(type) {
	case *rbacv1.ClusterRole:
		old, _ := a.GetOldObject().(*rbacv1.ClusterRole)
		aggregates := aggregates(obj) || (old != nil && aggregates(old))
		return p.checker.CheckRole(ctx, a.GetUserInfo(), attributes(a), obj.Name, obj.Rules, aggregates)
	case *rbacv1.Role:
		return p.checker.CheckRole(ctx, a.GetUserInfo(), attributes(a), obj.Name, obj.Rules, false)
	case *rbacv1.ClusterRoleBinding:
		return p.checker.CheckBinding(ctx, a.GetUserInfo(), "", obj.Name, obj.RoleRef)
	case *rbacv1.RoleBinding:
		return p.checker.CheckBinding(ctx, a.GetUserInfo(), a.GetNamespace(), obj.Name, obj.RoleRef)
	}
	return nil
}

func aggregates(r *rbacv1.ClusterRole) bool {
	return r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

func attributes(a admission.Attributes) authorizer.AttributesRecord {
	r := a.GetResource()
	return authorizer.AttributesRecord{
		Namespace: a.GetNamespace(), APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource, Name: a.GetName(), ResourceRequest: true,
	}
}
