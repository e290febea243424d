// Package encryption keeps values encrypted in a store, as a configuration file says for each resource
// (https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data/). What the values look like, which keys they are
// encrypted with and what is bound into them (their own key in the store) is upstream's, so that either API server
// reads what the other wrote.
package encryption

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"

	"quintet.dev/quintet/components/apiserver/storage"
)

// Store is a store whose values lie encrypted in another one. Values that can't be decrypted are unreadable, see
// storage.KeyValue; those that can't be encrypted are not written. Everything else is as with the other store.
type Store struct {
	storage.Store // where the encrypted values are

	transformers value.ResourceTransformers
	resource     func(key string) (schema.GroupResource, bool)
	known        sync.Map // schema.GroupResource -> *transformer
}

// transformer encrypts and decrypts the values of a resource.
type transformer struct {
	value.Transformer
	encrypted atomic.Bool // some value was
}

// saw notes in which form a value lies in the store.
func (t *transformer) saw(lying []byte) {
	if !t.encrypted.Load() && bytes.HasPrefix(lying, prefix) {
		t.encrypted.Store(true)
	}
}

// prefix begins every value that is encrypted.
var prefix = []byte("k8s:enc:")

var _ storage.Store = (*Store)(nil)

// NewStore makes a store over another one. resource tells of which resource the value at a key is; what is of none is
// not encrypted.
func NewStore(over storage.Store, transformers value.ResourceTransformers,
	resource func(key string) (schema.GroupResource, bool)) *Store {
	return &Store{Store: over, transformers: transformers, resource: resource}
}

// transformer is what encrypts and decrypts the value of a key; nil if nothing does.
func (s *Store) transformer(key string) *transformer {
	resource, ok := s.resource(key)
	if !ok {
		return nil
	}
	if t, ok := s.known.Load(resource); ok {
		return t.(*transformer)
	}
	t, _ := s.known.LoadOrStore(resource, &transformer{Transformer: s.transformers.TransformerForResource(resource)})
	return t.(*transformer)
}

// Encrypted tells whether a value of a resource was found, or written, encrypted.
func (s *Store) Encrypted(resource schema.GroupResource) bool {
	t, ok := s.known.Load(resource)
	return ok && t.(*transformer).encrypted.Load()
}

// seal encrypts the value of a key.
func (s *Store) seal(ctx context.Context, key string, plain []byte) ([]byte, error) {
	t := s.transformer(key)
	if t == nil {
		return plain, nil
	}
	sealed, err := t.TransformToStorage(ctx, plain, value.DefaultContext(key))
	if err != nil {
		return nil, &storage.UnsealedError{Err: err}
	}
	t.saw(sealed)
	return sealed, nil
}

// open decrypts what was found at a key.
func (s *Store) open(ctx context.Context, kv *storage.KeyValue) {
	t := s.transformer(kv.Key)
	if t == nil {
		return
	}
	t.saw(kv.Value)
	plain, stale, err := t.TransformFromStorage(ctx, kv.Value, value.DefaultContext(kv.Key))
	if err != nil {
		kv.Value, kv.Unreadable = nil, err
		return
	}
	kv.Value, kv.Stale, kv.Memo = plain, stale, nil
}

// Get implements storage.Store.
func (s *Store) Get(ctx context.Context, key string) (storage.KeyValue, error) {
	kv, err := s.Store.Get(ctx, key)
	if err == nil {
		s.open(ctx, &kv)
	}
	return kv, err
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, r storage.Range) (storage.Page, error) {
	page, err := s.Store.List(ctx, r)
	for i := range page.Items {
		s.open(ctx, &page.Items[i])
	}
	return page, err
}

// Create implements storage.Store.
func (s *Store) Create(ctx context.Context, key string, plain []byte, ttl time.Duration) (int64, error) {
	sealed, err := s.seal(ctx, key, plain)
	if err != nil {
		return 0, err
	}
	return s.Store.Create(ctx, key, sealed, ttl)
}

// Update implements storage.Store.
func (s *Store) Update(ctx context.Context, key string, plain []byte, expected int64, ttl time.Duration) (int64,
	error) {
	sealed, err := s.seal(ctx, key, plain)
	if err != nil {
		return 0, err
	}
	revision, err := s.Store.Update(ctx, key, sealed, expected, ttl)
	return revision, s.openConflict(ctx, err)
}

// Delete implements storage.Store.
func (s *Store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	revision, err := s.Store.Delete(ctx, key, expected)
	return revision, s.openConflict(ctx, err)
}

// openConflict decrypts what a failed write found.
func (s *Store) openConflict(ctx context.Context, err error) error {
	conflict := new(storage.ConflictError)
	if !errors.As(err, &conflict) || conflict.Current.Revision == 0 {
		return err
	}
	current := conflict.Current
	s.open(ctx, &current)
	return &storage.ConflictError{Current: current}
}

// Watch implements storage.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) storage.Watcher {
	w := &watcher{Watcher: s.Store.Watch(ctx, prefix, after), events: make(chan []storage.Event)}
	go w.run(ctx, s)
	return w
}

// watcher decrypts the events of another one.
type watcher struct {
	storage.Watcher
	events chan []storage.Event
}

// Events implements storage.Watcher.
func (w *watcher) Events() <-chan []storage.Event { return w.events }

// valueTimeout bounds the time that a key service may take for one value. Transformers that call a service end sooner,
// by their configured timeout: a service that is slow, but within its timeout, is waited for.
const valueTimeout = time.Minute

// openBatch decrypts a copy of a batch, which may be shared. The events of all resources come through one watch: once
// the key service has timed out for a value, only values that need no call to it are decrypted of the rest. Values that
// timed out can be read later, as can those that the service rejects.
func (s *Store) openBatch(ctx context.Context, batch []storage.Event) []storage.Event {
	opened, timeout := slices.Clone(batch), valueTimeout
	for i := range opened {
		if opened[i].Type != storage.Put {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		s.open(ctx, &opened[i].KeyValue)
		cancel()
		if tooLate(opened[i].Unreadable) {
			timeout = 0
		}
	}
	return opened
}

// tooLate tells whether an error is that an answer didn't come in time.
func tooLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

func (w *watcher) run(ctx context.Context, s *Store) {
	defer close(w.events)
	for batch := range w.Watcher.Events() {
		opened := s.openBatch(ctx, batch)
		if ctx.Err() != nil {
			continue // until the other watch has ended too: what follows on something that is left out must not be told
		}
		select {
		case w.events <- opened:
		case <-ctx.Done():
		}
	}
}
