package storageprotection

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

// Volumes protects PersistentVolumes.
type Volumes struct {
	env     runner.Env
	volumes corelisters.PersistentVolumeLister
	loop    *runner.Loop[string]
}

// NewVolumes makes the controller; it starts working with Run.
func NewVolumes(env runner.Env) (*Volumes, error) {
	volumes := env.Informers.Core().V1().PersistentVolumes()
	c := &Volumes{env: env, volumes: volumes.Lister()}
	c.loop = runner.NewLoop("pvprotection", env, c.reconcile)
	return c, c.loop.Watch(volumes.Informer(), runner.Handle(func(_, new *v1.PersistentVolume) {
		if new != nil && decide(new, volumeFinalizer) != keep {
			c.loop.Add(new.Name)
		}
	}))
}

// Run works until ctx ends.
func (c *Volumes) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Volumes) reconcile(ctx context.Context, name string) error {
	volume, err := c.volumes.Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	todo := decide(volume, volumeFinalizer)
	if todo == keep || (todo == remove && volume.Status.Phase == v1.VolumeBound) {
		return nil
	}
	changed := volume.DeepCopy()
	changed.Finalizers = finalizers(volume, volumeFinalizer, todo)
	_, err = c.env.Client.CoreV1().PersistentVolumes().Update(ctx, changed, metav1.UpdateOptions{})
	if err = runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("finalizer of volume %s: %w", name, err)
	}
	return nil
}
