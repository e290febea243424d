// Package policystatus checks the types in the expressions of validating admission policies and tells what it found in
// their status (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#type-checking).
package policystatus

import (
	"context"
	"fmt"

	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	applyadmission "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

// manager owns the fields of the status.
const manager = "validatingadmissionpolicy-status"

// Controller writes the status of policies.
type Controller struct {
	env      runner.Env
	policies admissionlisters.ValidatingAdmissionPolicyLister
	checker  *validating.TypeChecker
	loop     *runner.Loop[string]
}

// New returns the controller; it starts with Run. The checker fetches the schemas of the kinds that policies
// match.
func New(env runner.Env, checker *validating.TypeChecker) (*Controller, error) {
	policies := env.Informers.Admissionregistration().V1().ValidatingAdmissionPolicies()
	c := &Controller{env: env, policies: policies.Lister(), checker: checker}
	c.loop = runner.NewLoop("validatingadmissionpolicy-status", env, c.reconcile)
	return c, c.loop.Watch(policies.Informer(), runner.Handle(func(_, new *admission.ValidatingAdmissionPolicy) {
		if new != nil && !checked(new) {
			c.loop.Add(new.Name)
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// checked reports whether the status is of the policy as it is. What its types are is not looked at again when a
// definition changes, as upstream doesn't.
func checked(p *admission.ValidatingAdmissionPolicy) bool {
	return p.Generation <= p.Status.ObservedGeneration
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	policy, err := c.policies.Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if checked(policy) {
		return nil
	}
	_, err = c.env.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().ApplyStatus(ctx,
		configuration(policy, c.checker.Check(policy)), metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err := runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("policy %s: %w", name, err)
	}
	return nil
}

// configuration is the status that tells of warnings.
func configuration(p *admission.ValidatingAdmissionPolicy,
	warnings []admission.ExpressionWarning) *applyadmission.ValidatingAdmissionPolicyApplyConfiguration {
	typeChecking := applyadmission.TypeChecking()
	for _, w := range warnings {
		typeChecking.WithExpressionWarnings(
			applyadmission.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning),
		)
	}
	return applyadmission.ValidatingAdmissionPolicy(p.Name).WithStatus(applyadmission.ValidatingAdmissionPolicyStatus().
		WithObservedGeneration(p.Generation).
		WithTypeChecking(typeChecking))
}
