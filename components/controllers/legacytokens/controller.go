package legacytokens

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/runner"
)

const (
	interval = 24 * time.Hour
	// record is where API servers write since when they note the use of tokens.
	record = "kube-apiserver-legacy-service-account-token-tracking"
)

// Controller cleans up once a day.
type Controller struct {
	env      runner.Env
	period   time.Duration
	secrets  corelisters.SecretLister
	pods     corelisters.PodLister
	accounts corelisters.ServiceAccountLister
	synced   []cache.InformerSynced
}

// New makes the controller; a token is kept for period without use. It starts working with Run.
func New(env runner.Env, period time.Duration) (*Controller, error) {
	core := env.Informers.Core().V1()
	return &Controller{
		env: env, period: period, secrets: core.Secrets().Lister(), pods: core.Pods().Lister(),
		accounts: core.ServiceAccounts().Lister(),
		synced: []cache.InformerSynced{core.Secrets().Informer().HasSynced, core.Pods().Informer().HasSynced,
			core.ServiceAccounts().Informer().HasSynced},
	}, nil
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		runner.Every(ctx, c.env.Clock, interval, func(ctx context.Context) {
			if err := c.clean(ctx); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Legacy service account tokens not cleaned up, will be tried again",
					"after", interval)
			}
		})
	}
	return ctx.Err()
}

func (c *Controller) clean(ctx context.Context) error {
	noted, err := c.env.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, record, metav1.GetOptions{})
	if err != nil {
		return runner.IgnoreGone(err) // the API server does not track use: no token counts as unused
	}
	if !tracked(noted, c.period, c.env.Clock.Now()) {
		return nil
	}
	all, err := c.secrets.List(labels.Everything())
	if err != nil {
		return err
	}
	mounted, err := c.mounted()
	if err != nil {
		return err
	}
	for _, secret := range all {
		o := observed{secret: secret, generated: c.generated(secret), mounted: mounted[runner.Key(secret)]}
		if err := c.apply(ctx, secret, decide(o, c.period, c.env.Clock.Now())); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Unused token not cleaned up", "secret", klog.KObj(secret))
		}
	}
	return nil
}

func (c *Controller) apply(ctx context.Context, secret *v1.Secret, todo change) error {
	client := c.env.Client.CoreV1().Secrets(secret.Namespace)
	switch todo {
	case invalidate:
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": secret.UID, "resourceVersion": secret.ResourceVersion,
			"labels": map[string]string{invalidSinceLabel: c.env.Clock.Now().UTC().Format(day)},
		}})
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return runner.IgnoreGone(err)
	case remove:
		return runner.IgnoreGone(client.Delete(ctx, secret.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
		}))
	}
	return nil
}

// mounted returns the keys of the Secrets that are volumes of pods.
func (c *Controller) mounted() (map[string]bool, error) {
	all, err := c.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for _, pod := range all {
		for _, volume := range pod.Spec.Volumes {
			if volume.Secret != nil {
				keys[pod.Namespace+"/"+volume.Secret.SecretName] = true
			}
		}
	}
	return keys, nil
}

// generated tells whether the Secret was made for its service account, not by a person.
func (c *Controller) generated(secret *v1.Secret) bool {
	account, err := c.accounts.ServiceAccounts(secret.Namespace).Get(secret.Annotations[v1.ServiceAccountNameKey])
	if err != nil ||
		(secret.Annotations[v1.ServiceAccountUIDKey] != "" &&
			types.UID(secret.Annotations[v1.ServiceAccountUIDKey]) != account.UID) {
		return false
	}
	for _, ref := range account.Secrets {
		if ref.Name == secret.Name {
			return true
		}
	}
	return false
}
