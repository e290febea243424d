// Package bootstrapsigner signs ConfigMap kube-public/cluster-info with every bootstrap token that allows signing, so
// that a node that joins a cluster with only a token can trust the ConfigMap
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/#configmap-signing).
package bootstrapsigner

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	"k8s.io/cluster-bootstrap/util/secrets"

	"quintet.dev/quintet/components/controllers/runner"
)

// Controller signs.
type Controller struct {
	env        runner.Env
	secrets    corelisters.SecretLister
	configMaps corelisters.ConfigMapLister
	loop       *runner.Loop[struct{}]
}

// New makes the controller. It starts working with Run.
func New(env runner.Env) (*Controller, error) {
	core := env.Informers.Core().V1()
	c := &Controller{env: env, secrets: core.Secrets().Lister(), configMaps: core.ConfigMaps().Lister()}
	c.loop = runner.NewLoop("bootstrap_signer_queue", env, c.reconcile)
	err := c.loop.Watch(core.ConfigMaps().Informer(), runner.Handle(func(_, new *v1.ConfigMap) {
		if new != nil && new.Namespace == metav1.NamespacePublic && new.Name == api.ConfigMapClusterInfo {
			c.loop.Add(struct{}{})
		}
	}))
	if err != nil {
		return nil, err
	}
	return c, c.loop.Watch(core.Secrets().Informer(), runner.Handle(func(old, new *v1.Secret) {
		if s := runner.Last(old, new); s.Namespace == metav1.NamespaceSystem && s.Type == v1.SecretTypeBootstrapToken {
			c.loop.Add(struct{}{})
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) reconcile(ctx context.Context, _ struct{}) error {
	info, err := c.configMaps.ConfigMaps(metav1.NamespacePublic).Get(api.ConfigMapClusterInfo)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	all, err := c.secrets.Secrets(metav1.NamespaceSystem).List(labels.Everything())
	if err != nil {
		return err
	}
	signed, err := sign(info.Data, signers(all, c.env.Clock.Now()))
	if err != nil || signed == nil {
		return err
	}
	changed := info.DeepCopy()
	changed.Data = signed
	_, err = c.env.Client.CoreV1().ConfigMaps(metav1.NamespacePublic).Update(ctx, changed, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) { // the newer one comes by itself
		return nil
	}
	return runner.IgnoreGone(err)
}

// signers are the secrets of the tokens that sign, by their ID.
func signers(all []*v1.Secret, now time.Time) map[string]string {
	out := map[string]string{}
	for _, s := range all {
		id, named := secrets.ParseName(s.Name)
		token := secrets.GetData(s, api.BootstrapTokenSecretKey)
		if s.Type == v1.SecretTypeBootstrapToken && named && secrets.GetData(s, api.BootstrapTokenIDKey) == id &&
			token != "" &&
			secrets.GetData(s, api.BootstrapTokenUsageSigningKey) == "true" && !secrets.HasExpired(s, now) {
			out[id] = token
		}
	}
	return out
}

// sign returns data with the signatures of these tokens and no others; nil if it has them, or nothing to sign.
func sign(data, tokens map[string]string) (map[string]string, error) {
	content, ok := data[api.KubeConfigKey]
	if !ok {
		return nil, nil
	}
	signed := maps.Clone(data)
	maps.DeleteFunc(signed, func(key, _ string) bool { return strings.HasPrefix(key, api.JWSSignatureKeyPrefix) })
	for id, token := range tokens {
		signature, err := jws.ComputeDetachedSignature(content, id, token)
		if err != nil {
			return nil, fmt.Errorf("sign as token %s: %w", id, err)
		}
		signed[api.JWSSignatureKeyPrefix+id] = signature
	}
	if maps.Equal(signed, data) {
		return nil, nil
	}
	return signed, nil
}
