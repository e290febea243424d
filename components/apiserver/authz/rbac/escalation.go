package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/auth/rbac/validation"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Escalation keeps users from granting more than they have
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping).
type Escalation struct {
	// Rules resolves what a user has as far as this server has heard.
	Rules *Authorizer
	// Stored reads what is stored now: that counts for what a role holds, and before a user is refused, as another
	// server may have written it just now.
	Stored objects.Reader
	// Authorizer answers for the verbs "escalate" and "bind".
	Authorizer authorizer.Authorizer
}

// everything is what "cluster-admin" grants.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// CheckRole returns a Forbidden error when u may not write a role with these rules. namespace is "" for a ClusterRole;
// request is what the request was authorized with; aggregates is whether the old or new role has an aggregation rule.
func (e *Escalation) CheckRole(ctx context.Context, u user.Info, request authorizer.AttributesRecord, name string,
	rules []rbacv1.PolicyRule, aggregates bool) error {
	if privileged(u) {
		return nil
	}
	request.User, request.Verb = u, "escalate"
	if decision, _, err := e.Authorizer.Authorize(ctx, request); err == nil && decision == authorizer.DecisionAllow {
		return nil
	}
	resource := schema.GroupResource{Group: rbacv1.GroupName, Resource: request.Resource}
	if err := e.confirm(ctx, u, request.Namespace, resource, rules); err != nil {
		return apierrors.NewForbidden(resource, name, err)
	}
	if aggregates {
		if err := e.confirm(ctx, u, request.Namespace, resource, everything); err != nil {
			return apierrors.NewForbidden(resource, name,
				errors.New("must have cluster-admin privileges to use the aggregationRule"))
		}
	}
	return nil
}

// CheckBinding returns an error when u may not bind the role ref in namespace ("" for a ClusterRoleBinding named name).
func (e *Escalation) CheckBinding(ctx context.Context, u user.Info, namespace, name string, ref rbacv1.RoleRef) error {
	if privileged(u) || e.mayBind(ctx, u, namespace, ref) {
		return nil
	}
	resource := rbacv1.Resource("clusterrolebindings")
	if namespace != "" {
		resource = rbacv1.Resource("rolebindings")
	}
	rules, err := e.rulesOf(ctx, resource, ref, namespace)
	if err != nil {
		return err
	}
	if err := e.confirm(ctx, u, namespace, resource, rules); err != nil {
		return apierrors.NewForbidden(resource, name, err)
	}
	return nil
}

// mayBind asks in the binding's namespace also for ClusterRoles, so that binding them can be delegated by namespace.
func (e *Escalation) mayBind(ctx context.Context, u user.Info, namespace string, ref rbacv1.RoleRef) bool {
	var resource string
	switch ref.Kind {
	case "Role":
		resource = "roles"
	case "ClusterRole":
		resource = "clusterroles"
	default:
		return false
	}
	decision, _, err := e.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: u, Verb: "bind", Namespace: namespace, APIGroup: ref.APIGroup, APIVersion: "*",
		Resource: resource, Name: ref.Name, ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}

func privileged(u user.Info) bool {
	return slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// confirm reports the rules that u lacks to write an object of a resource.
func (e *Escalation) confirm(ctx context.Context, u user.Info, namespace string, asked schema.GroupResource,
	wanted []rbacv1.PolicyRule) error {
	known, _ := e.Rules.Rules(u, namespace)
	if covered, _ := validation.Covers(known, wanted); covered {
		return nil
	}
	held, unresolved := e.held(ctx, u, namespace, asked)
	covered, missing := validation.Covers(held, wanted)
	if covered {
		return nil
	}
	lines := make([]string, 0, len(missing))
	for _, rule := range compact(missing) {
		lines = append(lines, describe(&rule))
	}
	slices.Sort(lines)
	msg := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(slices.Compact(lines), "\n"))
	if len(unresolved) > 0 {
		msg += fmt.Sprintf("; resolution errors: %v", []error{utilerrors.NewAggregate(unresolved)})
	}
	return errors.New(msg)
}

// compact joins the verbs of rules that name the same one resource, for a message that people can read. A verb that
// comes twice stays so.
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	at := map[string]int{}
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 {
			out = append(out, rule)
			continue
		}
		key := fmt.Sprintf("%q/%q/%q", rule.APIGroups, rule.Resources, rule.ResourceNames)
		i, seen := at[key]
		if !seen {
			at[key] = len(out)
			rule.Verbs = slices.Clone(rule.Verbs)
			out = append(out, rule)
			continue
		}
		out[i].Verbs = append(out[i].Verbs, rule.Verbs...)
	}
	return out
}

func describe(rule *rbacv1.PolicyRule) string {
	var parts []string
	for _, part := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", rule.APIGroups},
		{"Resources", rule.Resources},
		{"NonResourceURLs", rule.NonResourceURLs},
		{"ResourceNames", rule.ResourceNames},
		{"Verbs", rule.Verbs},
	} {
		if len(part.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", part.name, part.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
