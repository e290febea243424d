// Package satoken fills Secrets of type kubernetes.io/service-account-token, and deletes those whose service account
// is gone (https://kubernetes.io/docs/concepts/configuration/secret/#serviceaccount-token-secrets).
package satoken

import (
	"bytes"
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/runner"
)

// Controller fills token Secrets.
type Controller struct {
	env      runner.Env
	signer   *Signer
	ca       []byte
	accounts corelisters.ServiceAccountLister
	secrets  corelisters.SecretLister
	loop     *runner.Loop[string]
}

// New makes the controller; ca is PEM and may be empty. It starts working with Run.
func New(env runner.Env, signer *Signer, ca []byte) (*Controller, error) {
	core := env.Informers.Core().V1()
	c := &Controller{env: env, signer: signer, ca: ca, accounts: core.ServiceAccounts().Lister(),
		secrets: core.Secrets().Lister()}
	c.loop = runner.NewLoop("serviceaccount_tokens_service", env, c.reconcile)
	if err := c.loop.Watch(core.Secrets().Informer(), runner.Handle(func(_, new *v1.Secret) {
		if new != nil && new.Type == v1.SecretTypeServiceAccountToken {
			c.loop.Add(runner.Key(new))
		}
	})); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(core.ServiceAccounts().Informer(), runner.Handle(c.accountChanged))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) accountChanged(old, new *v1.ServiceAccount) {
	if old != nil && new != nil && old.UID == new.UID {
		return
	}
	account := runner.Last(old, new)
	secrets, err := c.secrets.Secrets(account.Namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, secret := range secrets {
		if secret.Type == v1.SecretTypeServiceAccountToken &&
			secret.Annotations[v1.ServiceAccountNameKey] == account.Name {
			c.loop.Add(runner.Key(secret))
		}
	}
}

// verdict is what to do with a Secret.
type verdict int

const (
	keep verdict = iota
	fill
	drop
)

// verdictOf decides on a token Secret; account is nil if there is none of that name.
func verdictOf(secret *v1.Secret, account *v1.ServiceAccount, ca []byte) verdict {
	uid := secret.Annotations[v1.ServiceAccountUIDKey]
	switch {
	case account == nil, uid != "" && uid != string(account.UID):
		return drop
	case uid == "",
		len(secret.Data[v1.ServiceAccountTokenKey]) == 0,
		string(secret.Data[v1.ServiceAccountNamespaceKey]) != secret.Namespace,
		len(ca) > 0 && !bytes.Equal(secret.Data[v1.ServiceAccountRootCAKey], ca):
		return fill
	}
	return keep
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	secret, err := c.secrets.Secrets(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || secret.DeletionTimestamp != nil {
		return err
	}
	account, err := c.account(ctx, namespace, secret.Annotations[v1.ServiceAccountNameKey])
	if err != nil {
		return err
	}
	client := c.env.Client.CoreV1().Secrets(namespace)
	switch verdictOf(secret, account, c.ca) {
	case drop:
		err = client.Delete(ctx, name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))})
	case fill:
		err = c.fill(ctx, secret, account)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("token secret %s: %w", key, err)
	}
	return nil
}

// account reads from the API server before it reports that there is none: a Secret may be created right after its
// account.
func (c *Controller) account(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	account, err := c.accounts.ServiceAccounts(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		account, err = c.env.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
	}
	return account, err
}

func (c *Controller) fill(ctx context.Context, secret *v1.Secret, account *v1.ServiceAccount) error {
	changed := secret.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	if len(changed.Data[v1.ServiceAccountTokenKey]) == 0 {
		token, err := c.signer.token(account, secret.Name)
		if err != nil {
			return err
		}
		changed.Data[v1.ServiceAccountTokenKey] = token
	}
	changed.Data[v1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	if len(c.ca) > 0 {
		changed.Data[v1.ServiceAccountRootCAKey] = c.ca
	}
	changed.Annotations[v1.ServiceAccountUIDKey] = string(account.UID)
	_, err := c.env.Client.CoreV1().Secrets(secret.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return err
}
