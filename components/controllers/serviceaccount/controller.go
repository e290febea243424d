// Package serviceaccount sees to it that every namespace has the service account "default"
// (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/).
package serviceaccount

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

const defaultName = "default"

// Controller creates default service accounts.
type Controller struct {
	env        runner.Env
	namespaces corelisters.NamespaceLister
	accounts   corelisters.ServiceAccountLister
	loop       *runner.Loop[string]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	core := env.Informers.Core().V1()
	c := &Controller{env: env, namespaces: core.Namespaces().Lister(), accounts: core.ServiceAccounts().Lister()}
	c.loop = runner.NewLoop("serviceaccount", env, c.reconcile)
	err := c.loop.Watch(core.Namespaces().Informer(), runner.Handle(func(_, new *v1.Namespace) {
		if new != nil {
			c.loop.Add(new.Name)
		}
	}))
	if err != nil {
		return nil, err
	}
	err = c.loop.Watch(core.ServiceAccounts().Informer(), runner.Handle(func(old, new *v1.ServiceAccount) {
		if new == nil {
			c.loop.Add(old.Namespace)
		}
	}))
	return c, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// missing is the whole decision.
func missing(namespace *v1.Namespace, account *v1.ServiceAccount) bool {
	return account == nil && namespace.Status.Phase != v1.NamespaceTerminating
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	namespace, err := c.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	account, err := c.accounts.ServiceAccounts(name).Get(defaultName)
	if apierrors.IsNotFound(err) {
		account, err = nil, nil
	}
	if err != nil {
		return err
	}
	if !missing(namespace, account) {
		return nil
	}
	made := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: defaultName}}
	_, err = c.env.Client.CoreV1().ServiceAccounts(name).Create(ctx, made, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("create service account %s/%s: %w", name, defaultName, err)
}
