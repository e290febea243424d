package cache

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	var unsure *UnsureError
	var status apierrors.APIStatus
	if !errors.As(err, &unsure) || !errors.As(err, &status) {
		t.Fatalf("got %v", err)
	}
	if s := status.Status(); s.Code != 500 || s.Message != errNoRoom.Error() || s.Reason != "" || s.Details != nil {
		t.Errorf("got %+v", s)
	}
	ended, cancel := context.WithTimeout(f.ctx, 0)
	defer cancel()
	if err := f.pods.errWrite(ended.Err(), "create"); !apierrors.IsTimeout(err) {
		t.Errorf("no answer in time: %v", err)
	}
}
