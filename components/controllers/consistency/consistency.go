// Package consistency keeps a controller from acting on a state that is older than its own writes: what it wrote for an
// object is remembered until the informers have come as far
// (KEP-5647, https://www.kubernetes.dev/resources/keps/5647/).
package consistency

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/internal/reconcile"
)

// Pods and the others are the resources that controllers wait for.
const (
	Pods   = "pods"
	Claims = "persistentvolumeclaims"
)

// Writes are the latest writes for each object that a controller reconciles. They are safe for concurrent use. A nil
// pointer remembers nothing and waits for nothing.
type Writes struct {
	read    map[string]func() string // by resource: how far its informer has come
	skipped func()
	mu      sync.Mutex
	before  map[string]string // what read has told
	owners  map[string]*writes
}

// writes are the resource versions that were written for one object, by resource.
type writes struct {
	owner types.UID
	at    map[string]string
}

// New makes Writes of the resources whose informers are given, and registers subsystem_stale_sync_skips_total. It is
// nil if env says that the controller reads what may be stale.
func New(env runner.Env, subsystem string, informers map[string]cache.SharedIndexInformer) *Writes {
	if env.StaleReads {
		return nil
	}
	skips := env.Counter(subsystem, "stale_sync_skips_total",
		"Reconciliations put off because the informers had not come to the controller's own writes.").WithLabelValues()
	read := map[string]func() string{}
	for resource, informer := range informers {
		read[resource] = informer.GetStore().LastStoreSyncResourceVersion
	}
	return newWrites(read, skips.Inc)
}

func newWrites(read map[string]func() string, skipped func()) *Writes {
	return &Writes{read: read, skipped: skipped, before: map[string]string{}, owners: map[string]*writes{}}
}

// Wrote remembers that an object of a resource was written for the owner that key names.
func (w *Writes) Wrote(key string, owner types.UID, resource, version string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.owners[key]
	if of == nil || of.owner != owner {
		of = &writes{owner: owner, at: map[string]string{}}
		w.owners[key] = of
	}
	if older(of.at[resource], version) || of.at[resource] == "" {
		of.at[resource] = version
	}
}

// Seen returns an error that is reconcile.ErrStale as long as an informer lacks what was written for key.
func (w *Writes) Seen(key string) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.owners[key]
	if of == nil {
		return nil
	}
	var behind []error
	for _, resource := range slices.Sorted(maps.Keys(of.at)) {
		written, now := of.at[resource], w.now(resource)
		if _, still := of.at[resource]; still && older(now, written) {
			behind = append(behind, fmt.Errorf("%s are seen as of %s, written at %s", resource, now, written))
		}
	}
	if len(behind) == 0 {
		delete(w.owners, key)
		return nil
	}
	w.skipped()
	return fmt.Errorf("%w: %w", reconcile.ErrStale, errors.Join(behind...))
}

// now returns how far a resource's informer has come. One that went back reads a store that was restored: what was
// written before that may never come. The caller holds the lock.
func (w *Writes) now(resource string) string {
	now := w.read[resource]()
	if older(now, w.before[resource]) {
		for _, of := range w.owners {
			delete(of.at, resource)
		}
	}
	w.before[resource] = now
	return now
}

// Forget drops what was written for an object that is gone; "" means every object that had the name.
func (w *Writes) Forget(key string, owner types.UID) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.owners[key]; of != nil && (owner == "" || of.owner == owner) {
		delete(w.owners, key)
	}
}

// older tells whether a is before b. Versions that can't be compared are not.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
