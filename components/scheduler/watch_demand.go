package scheduler

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/scheduler/framework"
	"quintet.dev/quintet/components/scheduler/queue"
)

// watchOnDemand watches the resources whose events plug-ins of users registered for.
func (s *Scheduler) watchOnDemand(f *feeds) error {
	for _, w := range s.config.handles.Watched() {
		if w.Typed {
			generic, err := f.ForResource(w.GroupVersionResource)
			if err != nil {
				return fmt.Errorf("watch %s: %w", w.Name, err)
			}
			s.watchFor(f, w, generic.Informer())
			continue
		}
		if f.dynamic == nil {
			if s.config.connection == nil {
				return fmt.Errorf("watch %s: %w", w.Name, errNoConnection)
			}
			client, err := dynamic.NewForConfig(s.config.connection)
			if err != nil {
				return err
			}
			f.dynamic = dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		}
		s.watchFor(f, w, f.dynamic.ForResource(w.GroupVersionResource).Informer())
	}
	return nil
}

var errNoConnection = errors.New("a scheduler that was given a client only can't watch custom resources")

// watchFor tells the queue of a resource's changes.
func (s *Scheduler) watchFor(f *feeds, w framework.Watched, informer cache.SharedIndexInformer) {
	tell := func(action int64, old, now any) {
		s.queue.Move(queue.Event{Kind: queue.Watched, Resource: w.Name, Action: action, Old: old, New: now})
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tell(framework.Added, nil, obj) },
		UpdateFunc: func(old, now any) { tell(framework.Updated, old, now) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			tell(framework.Removed, obj, nil)
		},
	})
	if err != nil {
		f.err = errors.Join(f.err, err)
		return
	}
	f.synced = append(f.synced, registration.HasSyncedChecker())
}

// start starts all informers and waits until what they read at first is known.
func (f *feeds) start(ctx context.Context) bool {
	f.StartWithContext(ctx)
	if f.dynamic != nil {
		f.dynamic.Start(ctx.Done())
	}
	if !cache.WaitFor(ctx, "", f.synced...) {
		return false
	}
	for _, synced := range f.WaitForCacheSync(ctx.Done()) { // those that plug-ins asked for themselves
		if !synced {
			return false
		}
	}
	return true
}

// shutdown waits for the informers to end.
func (f *feeds) shutdown() {
	if f.slices != nil {
		f.slices.Stop()
	}
	f.Shutdown()
	if f.dynamic != nil {
		f.dynamic.Shutdown()
	}
}
