// Package clusterroleaggregation fills cluster roles with the rules of those they aggregate
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles).
package clusterroleaggregation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	applyrbac "k8s.io/client-go/applyconfigurations/rbac/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

// manager owns the rules field of aggregated roles.
const manager = "clusterrole-aggregation-controller"

// Controller aggregates cluster roles.
type Controller struct {
	env   runner.Env
	roles rbaclisters.ClusterRoleLister
	loop  *runner.Loop[string]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	roles := env.Informers.Rbac().V1().ClusterRoles()
	c := &Controller{env: env, roles: roles.Lister()}
	c.loop = runner.NewLoop("ClusterRoleAggregator", env, c.reconcile)
	return c, c.loop.Watch(roles.Informer(), runner.Handle(func(_, _ *rbac.ClusterRole) { c.wake() }))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// wake enqueues all aggregated roles, as a change of any role may affect them.
func (c *Controller) wake() {
	all, err := c.roles.List(labels.Everything())
	if err != nil {
		return
	}
	for _, role := range all {
		if role.AggregationRule != nil {
			c.loop.Add(role.Name)
		}
	}
}

// aggregate returns the rules of the roles that rule selects, without self, each once.
func aggregate(self string, rule *rbac.AggregationRule, all []*rbac.ClusterRole) ([]rbac.PolicyRule, error) {
	sorted := slices.SortedFunc(slices.Values(all),
		func(a, b *rbac.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	rules := []rbac.PolicyRule{}
	for i := range rule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&rule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		for _, role := range sorted {
			if role.Name == self || !selector.Matches(labels.Set(role.Labels)) {
				continue
			}
			for _, candidate := range role.Rules {
				known := slices.ContainsFunc(rules,
					func(r rbac.PolicyRule) bool { return equality.Semantic.DeepEqual(r, candidate) })
				if !known {
					rules = append(rules, candidate)
				}
			}
		}
	}
	return rules, nil
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	role, err := c.roles.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || role.AggregationRule == nil {
		return err
	}
	all, err := c.roles.List(labels.Everything())
	if err != nil {
		return err
	}
	rules, err := aggregate(name, role.AggregationRule, all)
	if err != nil {
		return fmt.Errorf("cluster role %s: %w", name, err)
	}
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return nil
	}
	_, err = c.env.Client.RbacV1().ClusterRoles().Apply(ctx, configuration(name, rules),
		metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster role %s: %w", name, err)
	}
	return nil
}

func configuration(name string, rules []rbac.PolicyRule) *applyrbac.ClusterRoleApplyConfiguration {
	apply := applyrbac.ClusterRole(name)
	for _, rule := range rules {
		apply.WithRules(applyrbac.PolicyRule().
			WithAPIGroups(rule.APIGroups...).
			WithNonResourceURLs(rule.NonResourceURLs...).
			WithResourceNames(rule.ResourceNames...).
			WithResources(rule.Resources...).
			WithVerbs(rule.Verbs...))
	}
	return apply
}
