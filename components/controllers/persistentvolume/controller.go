package persistentvolume

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/controllers/runner"
)

// Options of the controller.
type Options struct {
	// SyncPeriod is how often every claim and volume is decided on without an event.
	SyncPeriod time.Duration
	// DynamicProvisioning lets claims without a fitting volume ask their class's provisioner for one.
	DynamicProvisioning bool
	HostPath, NFS       Recycling
}

// key names a volume, which has no namespace, or a claim.
type key struct{ namespace, name string }

// Controller binds and reclaims.
type Controller struct {
	env     runner.Env
	options Options
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	pods    corelisters.PodLister
	loop    *runner.Loop[key]

	operations *operations
}

// New makes the controller; it starts working with Run.
func New(env runner.Env, options Options) (*Controller, error) {
	core, classes := env.Informers.Core().V1(), env.Informers.Storage().V1().StorageClasses()
	claims, volumes, pods := core.PersistentVolumeClaims(), core.PersistentVolumes(), core.Pods()
	c := &Controller{env: env, options: options, claims: claims.Lister(), volumes: volumes.Lister(),
		classes: classes.Lister(), pods: pods.Lister(), operations: newOperations(env)}
	env.Collect(counted{volumes: volumes.Lister(), claims: claims.Lister()})
	env.Workers = 1 // two decisions at once could give one volume to two claims
	c.loop = runner.NewLoop("volumes", env, c.reconcile)
	if err := c.loop.Watch(claims.Informer(), runner.Handle(c.claimChanged)); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(volumes.Informer(), runner.Handle(c.volumeChanged)); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(pods.Informer(), runner.Handle(c.podChanged)); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(classes.Informer(), runner.Handle(func(_, new *storagev1.StorageClass) {
		if new != nil {
			c.wakeUnbound(func(claim *v1.PersistentVolumeClaim) bool {
				name := storagehelpers.GetPersistentVolumeClaimClass(claim)
				return name == new.Name || !storagehelpers.PersistentVolumeClaimHasClass(claim)
			})
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.loop.Run(ctx) })
	group.Go(func() error {
		runner.Every(ctx, c.env.Clock, c.options.SyncPeriod, func(context.Context) { c.resync() })
		return ctx.Err()
	})
	return group.Wait()
}

func (c *Controller) resync() {
	if volumes, err := c.volumes.List(labels.Everything()); err == nil {
		for _, volume := range volumes {
			c.loop.Add(key{name: volume.Name})
		}
	}
	if claims, err := c.claims.List(labels.Everything()); err == nil {
		for _, claim := range claims {
			c.loop.Add(claimKey(claim))
		}
	}
}

func claimKey(claim *v1.PersistentVolumeClaim) key { return key{claim.Namespace, claim.Name} }

func (c *Controller) claimChanged(old, new *v1.PersistentVolumeClaim) {
	if new != nil {
		c.loop.Add(claimKey(new))
	}
	// The volume of a claim that is gone, or is another one of its name, is to be reclaimed.
	if old != nil && old.Spec.VolumeName != "" && (new == nil || new.UID != old.UID) {
		c.loop.Add(key{name: old.Spec.VolumeName})
	}
	if new != nil && new.Spec.VolumeName != "" && (old == nil || old.Spec.VolumeName == "") {
		c.loop.Add(key{name: new.Spec.VolumeName})
	}
}

func (c *Controller) volumeChanged(old, new *v1.PersistentVolume) {
	last := runner.Last(old, new)
	c.loop.Add(key{name: last.Name})
	if ref := last.Spec.ClaimRef; ref != nil {
		c.loop.Add(key{ref.Namespace, ref.Name})
		return
	}
	if new != nil && new.Status.Phase == v1.VolumeAvailable &&
		(old == nil || old.Status.Phase != v1.VolumeAvailable || old.ResourceVersion != new.ResourceVersion) {
		c.wakeUnbound(func(claim *v1.PersistentVolumeClaim) bool {
			return claim.Spec.VolumeName == new.Name || storagehelpers.GetPersistentVolumeClaimClass(claim) ==
				storagehelpers.GetPersistentVolumeClass(new)
		})
	}
}

// wakeUnbound has the claims decided on that are not bound and that may be helped.
func (c *Controller) wakeUnbound(helped func(*v1.PersistentVolumeClaim) bool) {
	claims, err := c.claims.List(labels.Everything())
	if err != nil {
		return
	}
	for _, claim := range claims {
		if claim.Status.Phase != v1.ClaimBound && helped(claim) {
			c.loop.Add(claimKey(claim))
		}
	}
}

// podChanged looks at the pods that recycle volumes. One that failed is followed by another only after a period.
func (c *Controller) podChanged(_, new *v1.Pod) {
	if new == nil {
		return
	}
	if volume, ok := recycledBy(new); ok {
		c.loop.Add(key{name: volume})
	}
}

func (c *Controller) reconcile(ctx context.Context, k key) error {
	if k.namespace == "" {
		volume, err := c.volumes.Get(k.name)
		if apierrors.IsNotFound(err) {
			c.operations.end(k, "delete", c.env.Clock.Now())
			return nil
		}
		if err != nil {
			return err
		}
		c.operations.note(volume, c.env.Clock.Now())
		return c.syncVolume(ctx, volume)
	}
	claim, err := c.claims.PersistentVolumeClaims(k.namespace).Get(k.name)
	if err != nil {
		delete(c.operations.since, k)
		return runner.IgnoreGone(err)
	}
	return c.syncClaim(ctx, claim)
}

func (c *Controller) observe(claim *v1.PersistentVolumeClaim) (*claimView, error) {
	view := &claimView{provisioning: c.options.DynamicProvisioning}
	var err error
	if name := claim.Spec.VolumeName; name != "" {
		volume, err := c.volumes.Get(name) // the only one that matters
		if err == nil {
			view.volumes = append(view.volumes, volume)
		}
		return view, runner.IgnoreGone(err)
	}
	if view.volumes, err = c.volumes.List(labels.Everything()); err != nil {
		return nil, err
	}
	if view.classes, err = c.classes.List(labels.Everything()); err != nil {
		return nil, err
	}
	pods, err := c.pods.Pods(claim.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	view.waiting = waitingPods(pods, claim.Name)
	return view, nil
}
