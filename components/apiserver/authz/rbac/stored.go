package rbac

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"quintet.dev/quintet/components/apiserver/objects"
)

// held are the rules that u has in a namespace by what is stored now, with what kept others from being found.
func (e *Escalation) held(ctx context.Context, u user.Info, namespace string,
	asked schema.GroupResource) (rules []rbacv1.PolicyRule, unresolved []error) {
	take := func(namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			key, ok := subjectKey(&s, namespace)
			return ok && key.is(u)
		}) {
			return
		}
		more, err := e.rulesOf(ctx, asked, ref, namespace)
		if err != nil {
			unresolved = append(unresolved, err)
		}
		rules = append(rules, more...)
	}
	everywhere, err := objects.ListAs[*rbacv1.ClusterRoleBinding](
		e.Stored.List(ctx, rbacv1.Resource("clusterrolebindings"), ""))
	if err != nil {
		unresolved = append(unresolved, err)
	}
	for _, b := range everywhere {
		take("", b.RoleRef, b.Subjects)
	}
	if namespace == "" {
		return rules, unresolved
	}
	here, err := objects.ListAs[*rbacv1.RoleBinding](e.Stored.List(ctx, rbacv1.Resource("rolebindings"), namespace))
	if err != nil {
		unresolved = append(unresolved, err)
	}
	for _, b := range here {
		take(namespace, b.RoleRef, b.Subjects)
	}
	return rules, unresolved
}

// rulesOf returns the rules that the role holds now which a binding in namespace names. Errors are those of a read that
// asks for the key before the role, and name the resource of the request.
func (e *Escalation) rulesOf(ctx context.Context, asked schema.GroupResource, ref rbacv1.RoleRef,
	namespace string) (rules []rbacv1.PolicyRule, err error) {
	problems := content.IsPathSegmentName(ref.Name)
	switch {
	case ref.Kind != "Role" && ref.Kind != "ClusterRole":
		return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
	case ref.Kind == "Role" && namespace == "":
		return nil, apierrors.NewBadRequest("Namespace parameter required.")
	case ref.Name == "":
		return nil, apierrors.NewBadRequest("Name parameter required.")
	case len(problems) > 0:
		return nil, apierrors.NewBadRequest(
			fmt.Sprintf("Name parameter invalid: %q: %s", ref.Name, strings.Join(problems, ";")))
	}
	if ref.Kind == "Role" {
		var role *rbacv1.Role
		if role, err = objects.As[*rbacv1.Role](
			e.Stored.Get(ctx, rbacv1.Resource("roles"), namespace, ref.Name)); err == nil {
			return role.Rules, nil
		}
	} else {
		var role *rbacv1.ClusterRole
		if role, err = objects.As[*rbacv1.ClusterRole](
			e.Stored.Get(ctx, rbacv1.Resource("clusterroles"), "", ref.Name)); err == nil {
			return role.Rules, nil
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(asked, ref.Name)
	}
	return nil, err
}
