// Package escalation refuses writes of roles and bindings that would grant more than the writer has. It is always on
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping).
package escalation

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/admission/collection"
)

// Checker decides what a user may grant.
type Checker interface {
	CheckRole(ctx context.Context, u user.Info, request authorizer.AttributesRecord, name string,
		rules []rbacv1.PolicyRule, aggregates bool) error
	CheckBinding(ctx context.Context, u user.Info, namespace, name string, ref rbacv1.RoleRef) error
}

// Check returns why a write is refused, or nil. It is to see the object that all plug-ins have changed: one of them may
// add rules.
func Check(ctx context.Context, checker Checker, a admission.Attributes) error {
	if a.GetResource().Group != rbacv1.GroupName || a.GetSubresource() != "" {
		return nil
	}
	if o := a.GetOperation(); o != admission.Create && o != admission.Update ||
		collection.Only(a.GetObject(), a.GetOldObject()) {
		return nil
	}
	switch obj := a.GetObject().(type) {
	case *rbacv1.ClusterRole:
		old, _ := a.GetOldObject().(*rbacv1.ClusterRole)
		aggregates := aggregates(obj) || (old != nil && aggregates(old))
		return checker.CheckRole(ctx, a.GetUserInfo(), attributes(ctx, a), obj.Name, obj.Rules, aggregates)
	case *rbacv1.Role:
		return checker.CheckRole(ctx, a.GetUserInfo(), attributes(ctx, a), obj.Name, obj.Rules, false)
	case *rbacv1.ClusterRoleBinding:
		return checker.CheckBinding(ctx, a.GetUserInfo(), "", obj.Name, obj.RoleRef)
	case *rbacv1.RoleBinding:
		return checker.CheckBinding(ctx, a.GetUserInfo(), a.GetNamespace(), obj.Name, obj.RoleRef)
	}
	return nil
}

func aggregates(r *rbacv1.ClusterRole) bool {
	return r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

// attributes are those of the authorization check for the verb escalate. The name is the one in the request's path: a
// POST has none, so a user with escalate on some names only may change these roles, and not create them.
func attributes(ctx context.Context, a admission.Attributes) authorizer.AttributesRecord {
	r := a.GetResource()
	out := authorizer.AttributesRecord{
		Namespace: a.GetNamespace(), APIGroup: r.Group, APIVersion: "*", Resource: r.Resource, ResourceRequest: true,
	}
	if info, ok := request.RequestInfoFrom(ctx); ok {
		out.Name = info.Name
	}
	return out
}
