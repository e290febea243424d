package apiserver_test

import (
	"context"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// raced is a store in which another client always removes a lease first.
type raced struct{ storage.Store }

func (s raced) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	revision, err := s.Store.Delete(ctx, key, expected)
	if err == nil && strings.HasPrefix(key, "/registry/leases/default/") {
		return 0, &storage.ConflictError{Current: storage.KeyValue{Key: key}}
	}
	return revision, err
}

// TestLastFinalizerTwice: of two that take away the last finalizer, the slower one has what it wanted too. It doesn't
// bring the object back, though updates of leases may create them.
func TestLastFinalizerTwice(t *testing.T) {
	store := raced{memory.New(nil)}
	t.Cleanup(func() { _ = store.Close() })
	leases := start(t, func(c *options.Config) { c.Storage, c.Store = "", store }).client(t).CoordinationV1().Leases(
		"default")
	l, err := leases.Create(t.Context(),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"a/b"}}},
		metav1.CreateOptions{})
	if err == nil {
		err = leases.Delete(t.Context(), "a", metav1.DeleteOptions{})
	}
	if err == nil {
		l, err = leases.Get(t.Context(), "a", metav1.GetOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Finalizers, l.UID = nil, ""
	got, err := leases.Update(t.Context(), l, metav1.UpdateOptions{})
	if err != nil || got.DeletionTimestamp == nil {
		t.Errorf("the update: %v, %v", got, err)
	}
	if got, err := leases.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}
