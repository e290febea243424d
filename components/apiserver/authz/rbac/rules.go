package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// allows reports whether one rule grants a request.
func allows(rule *rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !hasOrAll(rule.Verbs, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return matchesURL(rule.NonResourceURLs, a.GetPath())
	}
	return hasOrAll(rule.APIGroups, a.GetAPIGroup()) &&
		matchesResource(rule.Resources, a.GetResource(), a.GetSubresource()) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName()))
}

// Allow reports whether one of the rules grants a request.
func Allow(rules []rbacv1.PolicyRule, a authorizer.Attributes) bool {
	for i := range rules {
		if allows(&rules[i], a) {
			return true
		}
	}
	return false
}

// hasOrAll: "*" stands for everything among verbs and among API groups.
func hasOrAll(list []string, want string) bool {
	for _, s := range list {
		if s == "*" || s == want {
			return true
		}
	}
	return false
}

// matchesResource knows "*", "pods", "pods/log" and "*/scale".
func matchesResource(list []string, resource, subresource string) bool {
	for _, s := range list {
		if s == rbacv1.ResourceAll {
			return true
		}
		if subresource == "" {
			if s == resource {
				return true
			}
			continue
		}
		main, sub, found := strings.Cut(s, "/")
		if found && sub == subresource && (main == resource || main == "*") {
			return true
		}
	}
	return false
}

// matchesURL knows "*", whole paths, and prefixes that end in "*".
func matchesURL(list []string, path string) bool {
	for _, s := range list {
		if s == rbacv1.NonResourceAll || s == path {
			return true
		}
		if prefix, ok := strings.CutSuffix(s, "*"); ok && strings.HasPrefix(path, strings.TrimRight(prefix, "*")) {
			return true
		}
	}
	return false
}
