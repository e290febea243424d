package storageprotection

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/runner"
)

const byClass = "by-attributes-class"

// Classes protects VolumeAttributesClasses that claims or volumes name (https://kep.k8s.io/3751).
type Classes struct {
	env     runner.Env
	classes storagelisters.VolumeAttributesClassLister
	users   []cache.Indexer // of claims and of volumes
	loop    *runner.Loop[string]
}

// NewClasses makes the controller; it starts working with Run.
func NewClasses(env runner.Env) (*Classes, error) {
	core, classes := env.Informers.Core().V1(), env.Informers.Storage().V1().VolumeAttributesClasses()
	c := &Classes{env: env, classes: classes.Lister()}
	c.loop = runner.NewLoop("vacprotection", env, c.reconcile)
	if err := c.loop.Watch(classes.Informer(), runner.Handle(func(_, new *storagev1.VolumeAttributesClass) {
		if new != nil && decide(new, classFinalizer) != keep {
			c.loop.Add(new.Name)
		}
	})); err != nil {
		return nil, err
	}
	if err := watchUsers(c, core.PersistentVolumeClaims().Informer(), classesOfClaim); err != nil {
		return nil, err
	}
	return c, watchUsers(c, core.PersistentVolumes().Informer(), classesOfVolume)
}

// watchUsers enqueues a class when an object stops using it.
func watchUsers[T any](c *Classes, users cache.SharedIndexInformer, classesOf func(*T) []string) error {
	if err := users.AddIndexers(cache.Indexers{byClass: func(obj any) ([]string, error) {
		user, ok := obj.(*T)
		if !ok {
			return nil, nil
		}
		return classesOf(user), nil
	}}); err != nil {
		return err
	}
	c.users = append(c.users, users.GetIndexer())
	return c.loop.Watch(users, runner.Handle(func(old, new *T) {
		if old == nil {
			return
		}
		var still []string
		if new != nil {
			still = classesOf(new)
		}
		for _, name := range classesOf(old) {
			if !slices.Contains(still, name) {
				c.loop.Add(name)
			}
		}
	}))
}

// Run works until ctx ends.
func (c *Classes) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// classesOfClaim returns the classes that a claim has, is to have, or is about to get.
func classesOfClaim(claim *v1.PersistentVolumeClaim) []string {
	names := named(claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName)
	if modify := claim.Status.ModifyVolumeStatus; modify != nil {
		names = append(names, named(&modify.TargetVolumeAttributesClassName)...)
	}
	return names
}

func classesOfVolume(volume *v1.PersistentVolume) []string {
	return named(volume.Spec.VolumeAttributesClassName)
}

// named returns the names that there are.
func named(names ...*string) []string {
	var out []string
	for _, name := range names {
		if name != nil && *name != "" {
			out = append(out, *name)
		}
	}
	return out
}

func (c *Classes) reconcile(ctx context.Context, name string) error {
	class, err := c.classes.Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	todo := decide(class, classFinalizer)
	if todo == keep {
		return nil
	}
	if todo == remove {
		used, err := c.used(name)
		if err != nil || used {
			return err
		}
	}
	changed := class.DeepCopy()
	changed.Finalizers = finalizers(class, classFinalizer, todo)
	_, err = c.env.Client.StorageV1().VolumeAttributesClasses().Update(ctx, changed, metav1.UpdateOptions{})
	if err = runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("finalizer of volume attributes class %s: %w", name, err)
	}
	return nil
}

// used reads only the informers, as upstream's controller does: there is no cheaper way to find the users of a class,
// and a new user sees the deletion timestamp of the class.
func (c *Classes) used(name string) (bool, error) {
	for _, users := range c.users {
		keys, err := users.IndexKeys(byClass, name)
		if err != nil || len(keys) > 0 {
			return true, err
		}
	}
	return false, nil
}
