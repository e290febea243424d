// Package rbac decides requests by Roles and bindings (https://kubernetes.io/docs/reference/access-authn-authz/rbac/).
package rbac

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Authorizer holds the RBAC objects it was told of. It is safe for concurrent use.
type Authorizer struct {
	index *index
}

var (
	_ authorizer.Authorizer   = &Authorizer{}
	_ authorizer.RuleResolver = &Authorizer{}
)

// New returns an Authorizer that knows no roles and so allows nothing.
func New() *Authorizer { return &Authorizer{index: newIndex()} }

// ClusterRoleChanged and the methods like it tell of a change; old is nil for a new object, new is nil for one
// deleted. The objects are not copied: they must not change afterwards.
func (r *Authorizer) ClusterRoleChanged(old, new *rbacv1.ClusterRole) {
	if new == nil {
		r.index.deleteRole("", old.Name)
		return
	}
	r.index.setRole("", new.Name, new.Rules)
}

// RoleChanged tells of a change of a Role.
func (r *Authorizer) RoleChanged(old, new *rbacv1.Role) {
	if new == nil {
		r.index.deleteRole(old.Namespace, old.Name)
		return
	}
	r.index.setRole(new.Namespace, new.Name, new.Rules)
}

// ClusterRoleBindingChanged tells of a change of a ClusterRoleBinding.
func (r *Authorizer) ClusterRoleBindingChanged(old, new *rbacv1.ClusterRoleBinding) {
	var before, after []rbacv1.Subject
	of := new
	if old != nil {
		before = old.Subjects
	}
	if new != nil {
		after = new.Subjects
	} else {
		of = old
	}
	r.index.replaceBinding("", of.Name, of.RoleRef, before, after)
}

// RoleBindingChanged tells of a change of a RoleBinding.
func (r *Authorizer) RoleBindingChanged(old, new *rbacv1.RoleBinding) {
	var before, after []rbacv1.Subject
	of := new
	if old != nil {
		before = old.Subjects
	}
	if new != nil {
		after = new.Subjects
	} else {
		of = old
	}
	r.index.replaceBinding(of.Namespace, of.Name, of.RoleRef, before, after)
}

// Authorize allows what some bound rule grants and has no opinion on the rest.
func (r *Authorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	u := a.GetUser()
	if u == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	namespace := a.GetNamespace()
	if !a.IsResourceRequest() {
		namespace = ""
	}
	var allowedBy *entry
	var errs []error
	r.index.visit(u, namespace, func(e *entry, rules []rbacv1.PolicyRule, err error) bool {
		if err != nil {
			errs = append(errs, err)
		} else if Allow(rules, a) {
			allowedBy = e
		}
		return allowedBy == nil
	})
	if allowedBy != nil {
		return authorizer.DecisionAllow, allowedBy.reason(u), nil
	}
	reason := ""
	if len(errs) > 0 {
		reason = fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs))
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

// Rules returns all rules that u has in namespace ("" for the cluster as a whole), binding by binding. The error tells
// of bindings whose role is missing; the rules are then still right, but may be fewer than meant.
func (r *Authorizer) Rules(u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var all []rbacv1.PolicyRule
	var errs []error
	for _, h := range r.held(u, namespace) {
		if h.err != nil {
			errs = append(errs, h.err)
		}
		all = append(all, h.rules...)
	}
	return all, utilerrors.NewAggregate(errs)
}

// holding is what a binding gives, or why it gives nothing.
type holding struct {
	*binding
	rules []rbacv1.PolicyRule
	err   error
}

// held returns what the bindings of u give in namespace: each once, those of the whole cluster first, in the order of
// their names.
func (r *Authorizer) held(u user.Info, namespace string) (all []holding) {
	seen := map[*binding]bool{}
	r.index.visit(u, namespace, func(e *entry, rules []rbacv1.PolicyRule, err error) bool {
		if !seen[e.binding] {
			seen[e.binding] = true
			all = append(all, holding{e.binding, rules, err})
		}
		return true
	})
	slices.SortFunc(all, func(x, y holding) int {
		return cmp.Or(cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name))
	})
	return all
}

// RulesFor implements authorizer.RuleResolver.
func (r *Authorizer) RulesFor(_ context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo,
	[]authorizer.NonResourceRuleInfo, bool, error) {
	rules, err := r.Rules(u, namespace)
	var resources []authorizer.ResourceRuleInfo
	var urls []authorizer.NonResourceRuleInfo
	for i := range rules {
		rule := &rules[i]
		if len(rule.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources,
				ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			urls = append(urls, &authorizer.DefaultNonResourceRuleInfo{Verbs: rule.Verbs,
				NonResourceURLs: rule.NonResourceURLs})
		}
	}
	return resources, urls, false, err
}
