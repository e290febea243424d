package provisioner

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/informer"
)

const (
	workers = 4
	// sweepPeriod is how often directories are looked for whose claim went before they had a volume.
	sweepPeriod = 10 * time.Minute
)

// Provisioner serves the claims of one node, or of all.
type Provisioner struct {
	config      Config
	node        string // "" for all
	directories directories
}

// New checks the configuration.
func New(config Config) (*Provisioner, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	node, err := config.nodeName()
	if err != nil {
		return nil, err
	}
	if config.Client == nil {
		if config.Client, err = newClient(config.Kubeconfig); err != nil {
			return nil, err
		}
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Provisioner{config: config, node: node, directories: directories{config.VolumeDir}}, nil
}

// key names a volume, which has no namespace, or a claim.
type key struct{ namespace, name string }

// run is what one Run works with.
type run struct {
	*Provisioner
	events  record.EventRecorder
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	queue   workqueue.TypedRateLimitingInterface[key]
}

// Run makes and removes volumes until ctx ends; volumes stay when it returns.
func (p *Provisioner) Run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: p.config.Client.CoreV1().Events("")})
	factory := informer.NewFactory(p.config.Client, 0, informer.WithoutManagedFields)
	claims, volumes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes()
	classes := factory.Storage().V1().StorageClasses()
	r := &run{
		Provisioner: p, claims: claims.Lister(), volumes: volumes.Lister(), classes: classes.Lister(),
		events: broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: Name, Host: p.node}),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[key](),
			workqueue.TypedRateLimitingQueueConfig[key]{Clock: p.config.Clock}),
	}
	synced := []cache.InformerSynced{classes.Informer().HasSynced}
	for _, watch := range []struct {
		informer cache.SharedIndexInformer
		handler  func(any)
	}{
		{claims.Informer(), func(obj any) {
			if claim, ok := obj.(*v1.PersistentVolumeClaim); ok && ours(claim) {
				r.queue.Add(key{claim.Namespace, claim.Name})
			}
		}},
		{volumes.Informer(), func(obj any) {
			if volume, ok := obj.(*v1.PersistentVolume); ok && planVolume(volume, p.node) != leave {
				r.queue.Add(key{name: volume.Name})
			}
		}},
		{classes.Informer(), r.classChanged},
	} {
		registration, err := watch.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: watch.handler,
			UpdateFunc: func(_, new any) { watch.handler(new) }})
		if err != nil {
			return err
		}
		synced = append(synced, registration.HasSynced)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		r.work(ctx)
	}
	r.queue.ShutDown()
	return nil
}

// classChanged brings claims back whose class was not there.
func (r *run) classChanged(obj any) {
	class, ok := obj.(*storagev1.StorageClass)
	if !ok || class.Provisioner != Name {
		return
	}
	claims, err := r.claims.List(labels.Everything())
	if err != nil {
		return
	}
	for _, claim := range claims {
		if ours(claim) && claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName == class.Name {
			r.queue.Add(key{claim.Namespace, claim.Name})
		}
	}
}

// work reconciles keys until ctx ends.
func (r *run) work(ctx context.Context) {
	stop := context.AfterFunc(ctx, r.queue.ShutDown)
	defer stop()
	r.sweep(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		ticker := r.config.Clock.NewTicker(sweepPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
				r.sweep(ctx)
			}
		}
	})
	for range workers {
		group.Go(func() {
			for r.next(ctx) {
			}
		})
	}
	group.Wait()
}

func (r *run) next(ctx context.Context) bool {
	k, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(k)
	err := r.reconcile(ctx, k)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		r.queue.Forget(k)
		return true
	case !apierrors.IsConflict(err):
		klog.FromContext(ctx).Error(err, "Failed to reconcile; retrying", "object", klog.KRef(k.namespace, k.name))
	}
	r.queue.AddRateLimited(k)
	return true
}

func (r *run) reconcile(ctx context.Context, k key) error {
	if k.namespace == "" {
		return r.syncVolume(ctx, k.name)
	}
	claim, err := r.claims.PersistentVolumeClaims(k.namespace).Get(k.name)
	if err != nil {
		return ignoreGone(err)
	}
	return r.syncClaim(ctx, claim)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
