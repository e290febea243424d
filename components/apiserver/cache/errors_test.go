package cache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// full is a store that has no room.
type full struct{ storage.Store }

var errNoRoom = errors.New("etcdserver: mvcc: database space exceeded")

func (full) Create(context.Context, string, []byte, time.Duration) (int64, error) {
	return 0, errNoRoom
}

// TestStoreFailures: what the store says is told in its words, and as what may have happened all the same.
func TestStoreFailures(t *testing.T) {
	f := start(t, full{memory.New(nil)}, Config{})
	_, err := f.pods.Create(f.ctx, f.pods.Key("a", "x"), pod("a", "x", ""), 0)
	var unsure *OutcomeUnknownError
	var status apierrors.APIStatus
	if !errors.As(err, &unsure) || !errors.As(err, &status) {
		t.Fatalf("got %v", err)
	}
	if s := status.Status(); s.Code != 500 || s.Message != errNoRoom.Error() || s.Reason != "" || s.Details != nil {
		t.Errorf("got %+v", s)
	}
	ended, cancel := context.WithTimeout(f.ctx, 0)
	defer cancel()
	if err := f.pods.errs.write(ended.Err(), "create"); !apierrors.IsTimeout(err) {
		t.Errorf("no answer in time: %v", err)
	}
}

// keyless is a store that can't encrypt, once it has lost its keys.
type keyless struct {
	storage.Store
	lost atomic.Bool
}

var errKeyless = &storage.UnsealedError{Err: errors.New("the key management service is down")}

func (s *keyless) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	if s.lost.Load() {
		return 0, errKeyless
	}
	return s.Store.Create(ctx, key, value, ttl)
}

func (*keyless) Update(context.Context, string, []byte, int64, time.Duration) (int64, error) {
	return 0, errKeyless
}

// TestUnsealed: what could not be encrypted has surely not happened, and is told as upstream does.
func TestUnsealed(t *testing.T) {
	store := &keyless{Store: memory.New(nil)}
	f := start(t, store, Config{})
	if _, err := f.pods.Create(f.ctx, f.pods.Key("a", "x"), pod("a", "x", ""), 0); err != nil {
		t.Fatal(err)
	}
	store.lost.Store(true)
	_, created := f.pods.Create(f.ctx, f.pods.Key("a", "y"), pod("a", "y", ""), 0)
	_, updated := f.pods.Update(f.ctx, f.pods.Key("a", "x"), nil,
		func(*Entry) (api.Object, error) { return pod("a", "x", "node"), nil })
	for _, err := range []error{created, updated} {
		var unsure *OutcomeUnknownError
		if !apierrors.IsInternalError(err) || errors.As(err, &unsure) ||
			err.Error() != "Internal error occurred: the key management service is down" {
			t.Errorf("got %#v", err)
		}
	}
}
