package csidriver

import (
	"context"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	provisioning "sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"quintet.dev/quintet/internal/informer"
	"quintet.dev/quintet/internal/reconcile"
)

// What failed is tried again after these delays, the least of which doubles each time.
const (
	minRetryDelay = 500 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// runControllers does the work of the sidecars that are asked for, until ctx ends.
func (d *Driver) runControllers(ctx context.Context, driver csi.ControllerClient) error {
	factory := informers.NewSharedInformerFactoryWithOptions(d.client, 0,
		informers.WithTransform(informer.WithoutManagedFields))
	group, ctx := errgroup.WithContext(ctx)
	if d.config.Provision {
		d.startProvisioner(ctx, group, factory, driver)
	}
	if d.config.Attach {
		if err := d.startAttacher(ctx, group, factory, driver); err != nil {
			return err
		}
	}
	if d.config.Resize {
		if err := d.startResizer(ctx, group, factory, driver); err != nil {
			return err
		}
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (d *Driver) startProvisioner(ctx context.Context, group *errgroup.Group, factory informers.SharedInformerFactory,
	driver csi.ControllerClient) {
	var workers sync.WaitGroup
	made := provisioning.NewProvisionController(ctx, d.client, d.config.DriverName,
		&provisioner{config: d.config, driver: driver, objects: d.client},
		provisioning.LeaderElection(false), // each node serves its own volumes
		provisioning.ClaimsInformer(factory.Core().V1().PersistentVolumeClaims().Informer()),
		provisioning.VolumesInformer(factory.Core().V1().PersistentVolumes().Informer()),
		provisioning.ClassesInformer(factory.Storage().V1().StorageClasses().Informer()),
		provisioning.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetryDelay, maxRetryDelay)),
		provisioning.FailedProvisionThreshold(0), provisioning.FailedDeleteThreshold(0),
	)
	made.ControllerWaitGroup(&workers)
	group.Go(func() error {
		made.Run(ctx)
		workers.Wait()
		return nil
	})
}

func (d *Driver) startAttacher(ctx context.Context, group *errgroup.Group, factory informers.SharedInformerFactory,
	driver csi.ControllerClient) error {
	attachments, volumes := factory.Storage().V1().VolumeAttachments(), factory.Core().V1().PersistentVolumes()
	a := &attacher{config: d.config, driver: driver, objects: d.client, attachments: attachments.Lister(),
		volumes: volumes.Lister(), clock: d.config.Clock}
	loop := reconcile.New(d.loop("attacher"), a.reconcile)
	loop.Needs(volumes.Informer())
	err := loop.Watch(attachments.Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if attachment, ok := object.(*storagev1.VolumeAttachment); ok && d.config.mine(attachment) {
				loop.Add(attachment.Name)
			}
		},
		UpdateFunc: func(old, new any) {
			before, ok := old.(*storagev1.VolumeAttachment)
			after, also := new.(*storagev1.VolumeAttachment)
			if ok && also && d.config.mine(after) && attachmentChanged(before, after) {
				loop.Add(after.Name)
			}
		},
	})
	group.Go(func() error { return loop.Run(ctx) })
	return err
}

// attachmentChanged tells whether there may be something else to do. What was written of a failure is no news: it would
// be tried again without a delay.
func attachmentChanged(old, new *storagev1.VolumeAttachment) bool {
	return old.UID != new.UID || old.Status.Attached != new.Status.Attached ||
		(old.DeletionTimestamp == nil) != (new.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(old.Finalizers, new.Finalizers)
}

func (d *Driver) startResizer(ctx context.Context, group *errgroup.Group, factory informers.SharedInformerFactory,
	driver csi.ControllerClient) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: d.client.CoreV1().Events("")})
	claims, volumes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes()
	r := &resizer{config: d.config, driver: driver, objects: d.client, claims: claims.Lister(),
		volumes: volumes.Lister(), clock: d.config.Clock, events: broadcaster.NewRecorder(scheme.Scheme,
			v1.EventSource{Component: "external-resizer " + d.config.DriverName, Host: d.config.NodeID})}
	loop := reconcile.New(d.loop("resizer"), r.reconcile)
	loop.Needs(volumes.Informer())
	err := loop.Watch(claims.Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if claim, ok := object.(*v1.PersistentVolumeClaim); ok {
				loop.Add(cache.MetaObjectToName(claim).String())
			}
		},
		UpdateFunc: func(old, new any) {
			before, ok := old.(*v1.PersistentVolumeClaim)
			after, also := new.(*v1.PersistentVolumeClaim)
			if ok && also && claimChanged(before, after) {
				loop.Add(cache.MetaObjectToName(after).String())
			}
		},
	})
	group.Go(func() error {
		defer broadcaster.Shutdown()
		return loop.Run(ctx)
	})
	return err
}

// claimChanged tells whether the claim may have to grow now, when it had not before.
func claimChanged(old, new *v1.PersistentVolumeClaim) bool {
	return old.UID != new.UID || old.Status.Phase != new.Status.Phase ||
		!equality.Semantic.DeepEqual(old.Spec.Resources, new.Spec.Resources) ||
		!equality.Semantic.DeepEqual(old.Status.Capacity, new.Status.Capacity)
}

func (d *Driver) loop(name string) reconcile.Config {
	return reconcile.Config{Name: name, Workers: 2, Clock: d.config.Clock, MinDelay: minRetryDelay,
		MaxDelay: maxRetryDelay}
}
