package cache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/encryption"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// keeper keeps the keys of values, and is away at times. What it encrypts stays as it is.
type keeper struct{ away atomic.Bool }

func (k *keeper) TransformerForResource(schema.GroupResource) value.Transformer { return k }

func (k *keeper) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	return data, nil
}

func (k *keeper) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	if k.away.Load() {
		return nil, false, errors.New("nobody keeps the keys")
	}
	return data, false, nil
}

// seal has the keeper's keys used for all values of a store.
func (k *keeper) seal(store storage.Store) storage.Store {
	return encryption.NewStore(store, k,
		func(string) (schema.GroupResource, bool) { return schema.GroupResource{}, true })
}

// shared is a store that others use, too: closing it is for them.
type shared struct{ storage.Store }

func (shared) Close() error { return nil }

// TestKeeperComesBack: what could not be decrypted for a while, when the server started or later, can be read when it
// can be decrypted again, and watches miss nothing of it.
func TestKeeperComesBack(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1_000_000_000, 0))
	keys, store := &keeper{}, memory.New(clock)
	sealed := keys.seal(store)
	first := start(t, sealed, Config{Clock: clock})
	first.create("a", "old", "n1")
	first.list(ListOptions{})
	keys.away.Store(true)
	f := start(t, shared{sealed}, Config{Clock: clock})
	refused := func(when string, err error) {
		t.Helper()
		if !apierrors.IsInternalError(err) {
			t.Errorf("%s: %v", when, err)
		}
	}
	all := func() error {
		_, err := f.pods.List(f.ctx, ListOptions{})
		return err
	}
	refused("list", all())
	keys.away.Store(false)
	refused("list, a moment later", all()) // who keeps keys isn't asked by every read
	clock.Step(mendPause)
	f.wantNames(f.list(ListOptions{}), "a/old")
	kept := f.list(ListOptions{Limit: 1, ResourceVersion: "0"})

	f.create("a", "next", "n1")
	f.list(ListOptions{})
	keys.away.Store(true)
	first.alter("a", "old", func(p *corev1.Pod) { p.Spec.NodeName = "n2" })
	clock.Step(mendPause)
	refused("list after an event", all())
	clock.Step(mendPause)
	_, err := f.pods.Watch(f.ctx, WatchOptions{})
	refused("watch", err)
	clock.Step(mendPause)
	_, err = f.pods.Get(f.ctx, f.pods.Key("a", "old"), "")
	refused("get", err)
	keys.away.Store(false)
	clock.Step(mendPause)
	w, err := f.pods.Watch(f.ctx, WatchOptions{})
	f.must(err)
	defer w.Close()
	if events, err := w.Next(f.ctx); err != nil || len(events) != 2 ||
		events[1].Entry.Object.(*corev1.Pod).Spec.NodeName != "n2" {
		t.Errorf("watched %v, %v", events, err)
	}
	f.wantNames(f.list(ListOptions{}), "a/next a/old")
	if len(kept.Entries) != 1 {
		t.Errorf("what was listed before has changed: %s", names(kept))
	}
}

// TestWriteMends: an unreadable value is no longer remembered as such when this server has overwritten it.
func TestWriteMends(t *testing.T) {
	keys := &keeper{}
	sealed := keys.seal(memory.New(nil))
	first := start(t, sealed, Config{})
	first.create("a", "x", "n1")
	keys.away.Store(true)
	f := start(t, shared{sealed}, Config{})
	keys.away.Store(false)
	e := f.alter("a", "x", func(p *corev1.Pod) { p.Spec.NodeName = "n2" })
	if now, err := f.pods.Get(f.ctx, e.Key, formatRevision(e.Revision)); err != nil || now != e {
		t.Errorf("got %v, %v", now, err)
	}
	if err := f.pods.state.broken.at(e.Key); err != nil {
		t.Error(err)
	}
}
