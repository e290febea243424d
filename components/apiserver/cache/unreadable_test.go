package cache

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestUnreadableValues: what can't be decoded fails the reads that would show it, and nothing else.
func TestUnreadableValues(t *testing.T) {
	store := memory.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	const key, other = "/registry/pods/a/bad", "/registry/pods/b/good"
	revision, err := store.Create(t.Context(), key, []byte("nonsense"), 0)
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, store, Config{})
	good := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "good"}}
	if _, err := f.pods.Create(f.ctx, other, good, 0); err != nil {
		t.Fatal(err)
	}
	list := func(namespace string) error {
		_, err := f.pods.List(f.ctx, ListOptions{Namespace: namespace})
		return err
	}
	fails := func(when string) {
		t.Helper()
		if _, err := f.pods.Get(f.ctx, key, ""); !undecodable(err) {
			t.Errorf("%s: get: %v", when, err)
		}
		if err := list(""); !undecodable(err) {
			t.Errorf("%s: list: %v", when, err)
		}
		if _, err := f.pods.Watch(f.ctx, WatchOptions{}); !undecodable(err) {
			t.Errorf("%s: watch: %v", when, err)
		}
		if err := list("b"); err != nil {
			t.Errorf("%s: list beside it: %v", when, err)
		}
	}
	fails("from the start")
	if n := f.pods.Counts().Undecodable; n != 1 {
		t.Errorf("counted %d values that can't be decoded", n)
	}
	if _, err := store.Delete(f.ctx, key, revision); err != nil {
		t.Fatal(err)
	}
	if err := list(""); err != nil {
		t.Errorf("after it went: %v", err)
	}

	w, err := f.pods.Watch(f.ctx, WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	made, err := f.pods.Create(f.ctx, key, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "bad"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if revision, err = store.Update(f.ctx, key, []byte("nonsense"), made.Revision, 0); err != nil {
		t.Fatal(err)
	}
	fails("overwritten")
	if _, ok := f.pods.Peek(key); ok {
		t.Error("the state before is still shown")
	}
	for err == nil {
		_, err = w.Next(f.ctx)
	}
	if !undecodable(err) {
		t.Errorf("the watch ended with %v", err)
	}
	if _, err := f.pods.List(f.ctx,
		ListOptions{ResourceVersion: formatRevision(revision),
			ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !undecodable(err) {
		t.Errorf("at its revision: %v", err)
	}
	_, value, err := f.pods.codec.encode(good.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Update(f.ctx, key, value, revision, 0); err != nil {
		t.Fatal(err)
	}
	if err := list(""); err != nil {
		t.Errorf("mended: %v", err)
	}
}

// undecodable tells whether a read failed with the text of the decoder, as upstream's do.
func undecodable(err error) bool {
	const told = "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct"
	return err != nil && strings.HasPrefix(err.Error(), told) &&
		apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}
