// Package runner is what every controller is made with: what the manager lends it, and the loop over its keys.
package runner

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/reconcile"
)

// Controller works until ctx ends, and returns only after all its goroutines have ended.
type Controller interface {
	Run(ctx context.Context) error
}

// Env is what the manager lends a controller.
type Env struct {
	// Client has the controller's identity.
	Client kubernetes.Interface
	// Informers are shared by all controllers: their objects are read-only and carry no managed fields.
	Informers informers.SharedInformerFactory
	// Events records in the name of the controller.
	Events record.EventRecorder
	// Clock is the only source of time.
	Clock clock.WithTicker
	// Metrics are those of the queues; they may be nil.
	Metrics workqueue.MetricsProvider
	// Registry has the metrics of controllers; it may be nil.
	Registry prometheus.Registerer
	// StaleReads lets a controller act before it has seen its own writes (KEP-5647).
	StaleReads bool
	// Workers is how many keys may be reconciled at once; at least 1.
	Workers int
}

// Loop reconciles keys of type K.
type Loop[K comparable] = reconcile.Loop[K]

// NewLoop makes a loop that calls f for every key added, from env.Workers goroutines. Metrics tell of its queue under
// name, which is that of upstream's queue where it has the same.
func NewLoop[K comparable](name string, env Env, f func(context.Context, K) error) *Loop[K] {
	return reconcile.New(
		reconcile.Config{Name: name, Workers: env.Workers, Clock: env.Clock, Metrics: env.Metrics}, f)
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
