// Package rootca publishes the certificate authority of the API server as config map kube-root-ca.crt in every
// namespace, from where it is mounted next to service account tokens.
package rootca

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

const (
	configMapName  = "kube-root-ca.crt"
	dataKey        = "ca.crt"
	descriptionKey = "kubernetes.io/description"
	description    = "The certificate authority that pods verify the API server with, when they reach it inside the " +
		"cluster " +
		"(kubernetes.default.svc). It promises nothing about other certificates."
)

// Controller publishes the authority.
type Controller struct {
	env        runner.Env
	ca         string
	namespaces corelisters.NamespaceLister
	configMaps corelisters.ConfigMapLister
	metrics    metrics
	loop       *runner.Loop[string]
}

// New makes the controller; ca is PEM. It starts working with Run.
func New(env runner.Env, ca []byte) (*Controller, error) {
	core := env.Informers.Core().V1()
	c := &Controller{env: env, ca: string(ca), metrics: newMetrics(env), namespaces: core.Namespaces().Lister(),
		configMaps: core.ConfigMaps().Lister()}
	c.loop = runner.NewLoop("root_ca_cert_publisher", env, c.measured)
	err := c.loop.Watch(core.Namespaces().Informer(), runner.Handle(func(_, new *v1.Namespace) {
		if new != nil {
			c.loop.Add(new.Name)
		}
	}))
	if err != nil {
		return nil, err
	}
	err = c.loop.Watch(core.ConfigMaps().Informer(), runner.Handle(func(old, new *v1.ConfigMap) {
		if now := runner.Last(old, new); now.Name == configMapName {
			c.loop.Add(now.Namespace)
		}
	}))
	return c, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// plan returns the config map to write; nil if current is right. A description that another client has changed lasts
// until the next repair.
func plan(namespace, ca string, current *v1.ConfigMap) *v1.ConfigMap {
	data := map[string]string{dataKey: ca}
	if current == nil {
		return &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: configMapName,
				Annotations: map[string]string{descriptionKey: description}},
			Data: data,
		}
	}
	if maps.Equal(current.Data, data) && current.Annotations[descriptionKey] != "" {
		return nil
	}
	changed := current.DeepCopy()
	changed.Data = data
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[descriptionKey] = description
	return changed
}

// measured reconciles, and counts that.
func (c *Controller) measured(ctx context.Context, namespace string) error {
	began := c.env.Clock.Now()
	err := c.reconcile(ctx, namespace)
	c.metrics.observe(c.env.Clock.Since(began), err)
	return err
}

func (c *Controller) reconcile(ctx context.Context, namespace string) error {
	ns, err := c.namespaces.Get(namespace)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if ns.Status.Phase == v1.NamespaceTerminating {
		return nil
	}
	current, err := c.configMaps.ConfigMaps(namespace).Get(configMapName)
	if apierrors.IsNotFound(err) {
		current, err = nil, nil
	}
	if err != nil {
		return err
	}
	wanted := plan(namespace, c.ca, current)
	if wanted == nil {
		return nil
	}
	client := c.env.Client.CoreV1().ConfigMaps(namespace)
	if current == nil {
		_, err = client.Create(ctx, wanted, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
			apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
			return nil
		}
	} else {
		_, err = client.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("publish config map %s/%s: %w", namespace, configMapName, err)
	}
	return nil
}
