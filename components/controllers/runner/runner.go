// Package runner is the small level-triggered engine under every controller: keys come from shared informers,
// wait in a rate-limited queue, and are reconciled by a few workers until the state is what it should be.
package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Controller works until ctx ends, and returns only after all its goroutines have ended.
type Controller interface {
	Run(ctx context.Context) error
}

// Env is what the manager lends a controller.
type Env struct {
	// Client speaks as the controller.
	Client kubernetes.Interface
	// Informers are shared by all controllers: their objects are read-only and carry no managed fields.
	Informers informers.SharedInformerFactory
	// Events records in the name of the controller.
	Events record.EventRecorder
	// Clock is the only source of time.
	Clock clock.WithTicker
	// Metrics are those of the queues; they may be nil.
	Metrics workqueue.MetricsProvider
	// Workers is how many keys may be reconciled at once; at least 1.
	Workers int
}

// Loop reconciles keys of type K. A key that is added while it is being reconciled is reconciled again afterwards;
// a key whose reconciliation fails comes back with exponential delay.
type Loop[K comparable] struct {
	name      string
	workers   int
	reconcile func(context.Context, K) error
	queue     workqueue.TypedRateLimitingInterface[K]
	synced    []cache.InformerSynced
}

// NewLoop makes a loop that calls reconcile for every key added, from env.Workers goroutines. Metrics tell of its queue under
// name, which is that of upstream's queue where it has the same.
func NewLoop[K comparable](name string, env Env, reconcile func(context.Context, K) error) *Loop[K] {
	config := workqueue.TypedRateLimitingQueueConfig[K]{Clock: env.Clock, MetricsProvider: env.Metrics}
	if env.Metrics != nil {
		config.Name = name // without one nothing is measured
	}
	return &Loop[K]{
		name:      name,
		workers:   max(env.Workers, 1),
		reconcile: reconcile,
		queue:     workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[K](), config),
	}
}

// Add asks for key to be reconciled.
func (l *Loop[K]) Add(key K) { l.queue.Add(key) }

// AddAfter asks for key to be reconciled once delay has passed.
func (l *Loop[K]) AddAfter(key K, delay time.Duration) { l.queue.AddAfter(key, delay) }

// Watch feeds the events of informer to handler. The loop starts only after handler has seen the initial state.
func (l *Loop[K]) Watch(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return err
	}
	l.synced = append(l.synced, registration.HasSynced)
	return nil
}

// Needs delays the start of the loop until informer has its initial state.
func (l *Loop[K]) Needs(informer cache.SharedIndexInformer) {
	l.synced = append(l.synced, informer.HasSynced)
}

// Run works until ctx ends. The informers must be started by the caller.
func (l *Loop[K]) Run(ctx context.Context) error {
	defer l.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), l.synced...) {
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, l.queue.ShutDown)
	defer stop()
	var workers sync.WaitGroup
	for range l.workers {
		workers.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	workers.Wait()
	return ctx.Err()
}

func (l *Loop[K]) next(ctx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(key)
	if ctx.Err() != nil {
		return false
	}
	if err := l.reconcile(ctx, key); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Reconciliation failed and will be retried", "loop", l.name, "key", fmt.Sprint(key), "err", err)
		}
		l.queue.AddRateLimited(key)
		return true
	}
	l.queue.Forget(key)
	return true
}

// Every calls f at once and then every period until ctx ends.
func Every(ctx context.Context, c clock.WithTicker, period time.Duration, f func(context.Context)) {
	ticker := c.NewTicker(period)
	defer ticker.Stop()
	for {
		f(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}
