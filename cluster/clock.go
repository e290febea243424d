package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"quintet.dev/quintet/clock"
	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/components/apiserver/storage"
)

// WithClock gives a cluster in this process a clock that tests move: all components tell the time by it, and
// Cluster.Advance puts it forward, so that what takes hours is seen in milliseconds. Requests, connections and
// client-go keep to real time. Several clusters, and controllers under test, can share a clock.
func WithClock(shared *clock.Clock) Option {
	return func(c *config) error {
		if shared == nil {
			return errors.New("the cluster's clock is nil: make one with clock.New")
		}
		c.clock = shared
		return nil
	}
}

func (c *config) checkClock() error {
	switch {
	case c.clock == nil:
		return nil
	case !c.inProcess:
		return errors.New("a clock that tests move: containers have the time of their host; use InProcess")
	case !c.inMemory():
		return fmt.Errorf("a clock that tests move: store %s ends leases by real time; use %s", EmbeddedEtcd, Memory)
	}
	return nil
}

// Advance puts the clock of a cluster that was started WithClock forward, as clock.Clock.Advance does: everything that
// is due in that time happens in its order, and each step waits until the cluster is at rest. A step is at rest once
// no request is being answered, no object changes and no goroutine of this process runs; controllers of other processes
// are not waited for.
func (c *Cluster) Advance(ctx context.Context, d time.Duration) error {
	if c.config.clock == nil {
		return fmt.Errorf("cluster %s was not started with WithClock", c.config.name)
	}
	return c.config.clock.Advance(ctx, d)
}

// lifetime is how long certificates of a cluster with a clock of its own are valid, so that years can pass: kubelets,
// controllers and clients would be locked out.
const lifetime = 100 * 365 * 24 * time.Hour

// validity is when the certificates of the cluster's members are valid; zero times are the usual ones. Clients look at
// them in real time, the API server in the cluster's.
func (c *config) validity() (from, to time.Time) {
	if c.clock == nil {
		return time.Time{}, time.Time{}
	}
	times := []time.Time{time.Now(), c.clock.Now()}
	return slices.MinFunc(times, time.Time.Compare).Add(-time.Hour),
		slices.MaxFunc(times, time.Time.Compare).Add(lifetime)
}

// activity is what goes on at the API servers of a cluster. It is safe for concurrent use.
type activity struct {
	store   storage.Store
	begun   atomic.Int64
	serving atomic.Int64
}

// now is a clock.Activity.
func (a *activity) now() (happened int64, busy bool) {
	revision, _ := a.store.Revision(context.Background()) // a closed store does not change
	return revision + a.begun.Load(), a.serving.Load() > 0
}

// wrap counts requests that end by themselves, before next, which may be nil, disturbs them.
func (a *activity) wrap(next func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	return func(handler http.Handler) http.Handler {
		if next != nil {
			handler = next(handler)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isLong(r) {
				handler.ServeHTTP(w, r)
				return
			}
			a.begun.Add(1)
			a.serving.Add(1)
			defer a.serving.Add(-1)
			handler.ServeHTTP(w, r)
		})
	}
}

// isLong tells whether a request may stay for long without doing anything: a watch or a stream of a pod.
func isLong(r *http.Request) bool {
	query := r.URL.Query()
	if watch := query.Get("watch"); watch != "" && watch != "false" && watch != "0" || query.Has("follow") {
		return true
	}
	parts := strings.Split(r.URL.Path, "/")
	return slices.Contains(parts, "watch") || slices.Contains(parts, "proxy") ||
		slices.Contains([]string{"exec", "attach", "portforward"}, parts[len(parts)-1])
}

// watched is a back end whose activity a clock waits for until it is closed.
type watched struct {
	backend.Backend
	forget func()
}

func (w watched) Close(ctx context.Context) error {
	w.forget()
	return w.Backend.Close(ctx)
}
