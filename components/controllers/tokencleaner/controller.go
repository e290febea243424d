// Package tokencleaner deletes bootstrap tokens when they expire
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
package tokencleaner

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/cluster-bootstrap/util/secrets"

	"quintet.dev/quintet/components/controllers/runner"
)

// Controller deletes what has expired.
type Controller struct {
	env     runner.Env
	secrets corelisters.SecretLister
	loop    *runner.Loop[string]
}

// New makes the controller. It starts working with Run.
func New(env runner.Env) (*Controller, error) {
	informer := env.Informers.Core().V1().Secrets()
	c := &Controller{env: env, secrets: informer.Lister()}
	c.loop = runner.NewLoop("token_cleaner", env, c.reconcile)
	return c, c.loop.Watch(informer.Informer(), runner.Handle(func(_, new *v1.Secret) {
		if new != nil && new.Namespace == metav1.NamespaceSystem && new.Type == v1.SecretTypeBootstrapToken {
			c.loop.Add(new.Name)
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) reconcile(ctx context.Context, name string) error {
	secret, err := c.secrets.Secrets(metav1.NamespaceSystem).Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if secret.Type != v1.SecretTypeBootstrapToken {
		return nil
	}
	left, over := secrets.GetExpiration(secret, c.env.Clock.Now())
	if !over {
		if left > 0 {
			c.loop.AddAfter(name, left)
		}
		return nil
	}
	err = c.env.Client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &secret.UID},
	})
	if apierrors.IsConflict(err) { // another one of that name: it comes by itself
		return nil
	}
	return runner.IgnoreGone(err)
}
