package bootstrap

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/auth/rbac/reconciliation"

	"quintet.dev/quintet/components/apiserver/bootstrap/policy"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// policySteps reconcile the default roles and bindings: what they lack is added, what others added stays
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#auto-reconciliation).
func (b *Bootstrap) policySteps() []step {
	if b.cfg.NoRoles {
		return nil
	}
	var steps []step
	roles, bindings := policy.ClusterRoles(b.cfg.Features), policy.ClusterRoleBindings(b.cfg.Features)
	for _, r := range roles {
		steps = append(steps, b.roleStep("cluster role "+r.Name, reconciliation.ClusterRoleRuleOwner{ClusterRole: r}))
	}
	for _, r := range policy.Roles() {
		steps = append(steps, b.roleStep("role "+r.Namespace+"/"+r.Name, reconciliation.RoleRuleOwner{Role: r}))
	}
	for _, rb := range bindings {
		steps = append(steps, b.bindingStep("cluster role binding "+rb.Name,
			reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: rb}))
	}
	for _, rb := range policy.RoleBindings() {
		steps = append(steps, b.bindingStep("role binding "+rb.Namespace+"/"+rb.Name,
			reconciliation.RoleBindingAdapter{RoleBinding: rb}))
	}
	return steps
}

func (b *Bootstrap) roleStep(name string, role reconciliation.RuleOwner) step {
	return step{name, func(ctx context.Context) error {
		return again(func() error {
			_, err := (&reconciliation.ReconcileRoleOptions{Role: role, Confirm: true,
				Client: &roleClient{ctx: ctx, store: b.writer.objects, like: role}}).Run()
			return err
		})
	}}
}

func (b *Bootstrap) bindingStep(name string, binding reconciliation.RoleBinding) step {
	return step{name, func(ctx context.Context) error {
		return again(func() error {
			_, err := (&reconciliation.ReconcileRoleBindingOptions{RoleBinding: binding, Confirm: true,
				Client: &bindingClient{ctx: ctx, store: b.writer.objects, like: binding}}).Run()
			return err
		})
	}}
}

// again repeats what lost a race against another server that starts at the same time.
func again(try func() error) (err error) {
	for range 5 {
		if err = try(); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

// roleClient is the store as the reconciliation of roles sees it. like tells Roles from ClusterRoles.
type roleClient struct {
	ctx   context.Context
	store objects.Store
	like  reconciliation.RuleOwner
	raced bool
}

func (c *roleClient) resource() schema.GroupResource {
	if _, ok := c.like.(reconciliation.RoleRuleOwner); ok {
		return rbacv1.Resource("roles")
	}
	return rbacv1.Resource("clusterroles")
}

func ruleOwner(obj api.Object, err error) (reconciliation.RuleOwner, error) {
	if err != nil {
		return nil, err
	}
	if role, ok := obj.(*rbacv1.Role); ok {
		return reconciliation.RoleRuleOwner{Role: role}, nil
	}
	role, err := objects.As[*rbacv1.ClusterRole](obj, nil)
	return reconciliation.ClusterRoleRuleOwner{ClusterRole: role}, err
}

func (c *roleClient) Get(namespace, name string) (reconciliation.RuleOwner, error) {
	return ruleOwner(read(c.ctx, c.store, c.raced, c.resource(), namespace, name))
}

func (c *roleClient) Create(in reconciliation.RuleOwner) (reconciliation.RuleOwner, error) {
	made, err := ruleOwner(c.store.Create(c.ctx, c.resource(), in.GetObject().(api.Object)))
	c.raced = apierrors.IsAlreadyExists(err)
	return made, err
}

func (c *roleClient) Update(in reconciliation.RuleOwner) (reconciliation.RuleOwner, error) {
	return ruleOwner(update(c.ctx, c.store, c.resource(), in.GetObject().(api.Object)))
}

// read reads from memory, which costs nothing at a start, but from the store once another server that starts at the
// same time was found to be faster: memory may not know yet what that one wrote.
func read(ctx context.Context, store objects.Store, raced bool, resource schema.GroupResource, namespace,
	name string) (api.Object, error) {
	if raced {
		return store.Live(ctx, resource, namespace, name)
	}
	return store.Get(ctx, resource, namespace, name)
}

// update writes obj over the version that it was made from.
func update(ctx context.Context, store objects.Store, resource schema.GroupResource, obj api.Object) (api.Object,
	error) {
	return store.Update(ctx, resource, obj.GetNamespace(), obj.GetName(),
		func(current api.Object) (api.Object, error) {
			if current.GetResourceVersion() != obj.GetResourceVersion() {
				return nil, apierrors.NewConflict(resource, obj.GetName(), nil)
			}
			return obj, nil
		})
}

// bindingClient is the store as the reconciliation of bindings sees it.
type bindingClient struct {
	ctx   context.Context
	store objects.Store
	like  reconciliation.RoleBinding
	raced bool
}

func (c *bindingClient) resource() schema.GroupResource {
	if _, ok := c.like.(reconciliation.RoleBindingAdapter); ok {
		return rbacv1.Resource("rolebindings")
	}
	return rbacv1.Resource("clusterrolebindings")
}

func roleBinding(obj api.Object, err error) (reconciliation.RoleBinding, error) {
	if err != nil {
		return nil, err
	}
	if binding, ok := obj.(*rbacv1.RoleBinding); ok {
		return reconciliation.RoleBindingAdapter{RoleBinding: binding}, nil
	}
	binding, err := objects.As[*rbacv1.ClusterRoleBinding](obj, nil)
	return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding}, err
}

func (c *bindingClient) Get(namespace, name string) (reconciliation.RoleBinding, error) {
	return roleBinding(read(c.ctx, c.store, c.raced, c.resource(), namespace, name))
}

func (c *bindingClient) Create(in reconciliation.RoleBinding) (reconciliation.RoleBinding, error) {
	made, err := roleBinding(c.store.Create(c.ctx, c.resource(), in.GetObject().(api.Object)))
	c.raced = apierrors.IsAlreadyExists(err)
	return made, err
}

func (c *bindingClient) Update(in reconciliation.RoleBinding) (reconciliation.RoleBinding, error) {
	return roleBinding(update(c.ctx, c.store, c.resource(), in.GetObject().(api.Object)))
}

func (c *bindingClient) Delete(namespace, name string, uid types.UID) error {
	return c.store.Delete(c.ctx, c.resource(), namespace, name, uid)
}
