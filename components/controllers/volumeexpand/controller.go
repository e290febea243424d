// Package volumeexpand tells users that a claim which is to grow is another component's to expand
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#expanding-persistent-volumes-claims). No volume is
// expanded here: of those that Kubernetes' own controller could expand, none is left.
package volumeexpand

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/runner"
)

// Controller records events.
type Controller struct {
	env     runner.Env
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	loop    *runner.Loop[string]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	core := env.Informers.Core().V1()
	claims, volumes := core.PersistentVolumeClaims(), core.PersistentVolumes()
	c := &Controller{env: env, claims: claims.Lister(), volumes: volumes.Lister()}
	c.loop = runner.NewLoop("volume_expand", env, c.reconcile)
	c.loop.Needs(volumes.Informer())
	return c, c.loop.Watch(claims.Informer(), runner.Handle(func(old, new *v1.PersistentVolumeClaim) {
		if new != nil && grows(new) && (old == nil || !grows(old) || requested(old).Cmp(*requested(new)) != 0) {
			c.loop.Add(runner.Key(new))
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func requested(claim *v1.PersistentVolumeClaim) *resource.Quantity {
	q := claim.Spec.Resources.Requests[v1.ResourceStorage]
	return &q
}

// grows tells whether a bound claim asks for more than it has.
func grows(claim *v1.PersistentVolumeClaim) bool {
	has := claim.Status.Capacity[v1.ResourceStorage]
	return claim.Status.Phase == v1.ClaimBound && requested(claim).Cmp(has) > 0
}

func (c *Controller) reconcile(_ context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if !grows(claim) {
		return nil
	}
	volume, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if ref := volume.Spec.ClaimRef; ref == nil || ref.Namespace != claim.Namespace || ref.UID != claim.UID {
		return fmt.Errorf("persistent Volume is not bound to PVC being updated : %s", key)
	}
	c.env.Events.Event(claim, v1.EventTypeNormal, "ExternalExpanding",
		"waiting for an external controller to expand this PVC")
	return nil
}
