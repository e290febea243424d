// Package reconcile is the level-triggered loop under every controller: keys come from shared informers, wait in a
// rate-limited queue, and are reconciled by a few workers until the state is what it should be.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// ErrStale is what a reconciliation fails with that must wait until informers have come further. The event that it
// waits for brings it back, or else a short time does: it takes no part in the limits of failures, and is logged as
// expected.
var ErrStale = errors.New("informers are behind")

const staleDelay = 100 * time.Millisecond

// Config is what a loop is made of.
type Config struct {
	// Name is the loop's in the log and its queue's in metrics: that of upstream's queue where it has the same.
	Name string
	// Workers is how many keys may be reconciled at once; 0 is one.
	Workers int
	// Clock is the only source of time.
	Clock clock.WithTicker
	// Metrics are those of the queue; nil measures nothing.
	Metrics workqueue.MetricsProvider
	// MinDelay and MaxDelay bound the delay of a key that failed, which doubles each time. Without them they are those of
	// most controllers: 5 ms and 1000 s, at 10 retries per second of all keys together.
	MinDelay, MaxDelay time.Duration
}

// Loop reconciles keys of type K. A key that is added while it is being reconciled is reconciled again afterwards;
// a key whose reconciliation fails, or panics, comes back with exponential delay. Its methods may be called
// concurrently, but for Watch and Needs, which come before Run, and Run, which is called once.
type Loop[K comparable] struct {
	name      string
	workers   int
	reconcile func(context.Context, K) error
	limiter   workqueue.TypedRateLimiter[K]
	queue     *queue[K]
	pace      *pace[K]
	synced    []cache.DoneChecker
}

// New makes a loop that calls reconcile for every key added.
func New[K comparable](c Config, reconcile func(context.Context, K) error) *Loop[K] {
	limiter := workqueue.DefaultTypedControllerRateLimiter[K]()
	if c.MinDelay > 0 {
		limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[K](c.MinDelay, c.MaxDelay)
	}
	l := &Loop[K]{
		name: c.Name, workers: max(c.Workers, 1), reconcile: reconcile, limiter: limiter,
		queue: newQueue(c.Clock, newQueueMetrics[K](c.Name, c.Metrics)),
	}
	l.pace = newPace(clock.RealClock{}, l.queue.add)
	return l
}

// Add enqueues key.
func (l *Loop[K]) Add(key K) { l.pace.put(key) }

// Looked tells that the reconciliation of key looks at n objects. If these are many, the key is not reconciled again
// before a pause is over that is in proportion, unless by AddAfter with a delay, Retry or a failure.
func (l *Loop[K]) Looked(key K, n int) { l.pace.looked(key, n) }

// AddAfter enqueues key once delay has passed; without a delay it is Add.
func (l *Loop[K]) AddAfter(key K, delay time.Duration) {
	if delay <= 0 {
		l.Add(key)
		return
	}
	l.queue.addAfter(key, delay)
}

// Retry enqueues key now, and lets its delay begin from the least again.
func (l *Loop[K]) Retry(key K) {
	l.limiter.Forget(key)
	l.queue.add(key)
}

// Watch feeds the events of informer to handler. The loop starts only after handler has seen the initial state.
func (l *Loop[K]) Watch(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return err
	}
	l.synced = append(l.synced, registration.HasSyncedChecker())
	return nil
}

// Needs delays the start of the loop until informer has its initial state.
func (l *Loop[K]) Needs(informer cache.SharedIndexInformer) {
	l.synced = append(l.synced, informer.HasSyncedChecker())
}

// WaitForSync returns once all that is watched or needed has its initial state. It fails when ctx ends before that.
func (l *Loop[K]) WaitForSync(ctx context.Context) error {
	if !cache.WaitFor(ctx, "", l.synced...) {
		return ctx.Err()
	}
	return nil
}

// Run works until ctx ends, and returns its error. The informers must be started by the caller.
func (l *Loop[K]) Run(ctx context.Context) error {
	defer l.queue.shutDown()
	if err := l.WaitForSync(ctx); err != nil {
		return err
	}
	l.queue.start(l.workers, func(key K) { l.next(ctx, key) })
	<-ctx.Done()
	return ctx.Err()
}

// next reconciles a key that is next in the queue, and lets it come back if that fails.
func (l *Loop[K]) next(ctx context.Context, key K) {
	if ctx.Err() != nil {
		return
	}
	err := l.attempt(ctx, key)
	switch {
	case err == nil:
		l.limiter.Forget(key)
		return
	case errors.Is(err, ErrStale):
		l.queue.addAfter(key, staleDelay)
	default:
		l.queue.addAfter(key, l.limiter.When(key))
	}
	l.log(ctx, key, err)
}

// attempt reconciles a key. A panic is an error of that key: other keys, other controllers and, in a test, the whole
// process go on.
func (l *Loop[K]) attempt(ctx context.Context, key K) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return l.reconcile(ctx, key)
}

// log writes of a failure: conflicts are expected, operators want to see everything else.
func (l *Loop[K]) log(ctx context.Context, key K, err error) {
	log := klog.FromContext(ctx).WithValues("loop", l.name, "key", fmt.Sprint(key))
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrStale):
		log.V(2).Info("Informers are behind; waiting", "err", err)
	case apierrors.IsConflict(err):
		log.V(2).Info("Object changed meanwhile; retrying", "err", err)
	default:
		log.Error(err, "Failed to reconcile; retrying")
	}
}
