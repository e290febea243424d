package cache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestKeyIsLost: where keys may be replaced, a get of the newest fails once the key of the object is lost. As with upstream, everybody
// else is answered from memory, and writes, too, begin with what is there.
func TestKeyIsLost(t *testing.T) {
	for _, replaceable := range []bool{true, false} {
		keys := &keeper{}
		f := start(t, keys.seal(memory.New(nil)), Config{Replaceable: func(schema.GroupResource) bool { return replaceable }})
		made := f.create("a", "x", "n1")
		f.list(ListOptions{})
		if got, err := f.pods.Get(f.ctx, made.Key, ""); err != nil || got != made {
			t.Errorf("replaceable %v: got another entry than that of memory: %v, %v", replaceable, got, err)
		}
		keys.away.Store(true)
		_, err := f.pods.Get(f.ctx, made.Key, "")
		if apierrors.IsInternalError(err) != replaceable || (err == nil) == replaceable {
			t.Errorf("replaceable %v: get: %v", replaceable, err)
		}
		if err := f.pods.Confirm(f.ctx, made.Key); apierrors.IsInternalError(err) != replaceable || (err == nil) == replaceable {
			t.Errorf("replaceable %v: confirmed: %v", replaceable, err)
		}
		if _, err := f.pods.Get(f.ctx, made.Key, "0"); err != nil {
			t.Errorf("replaceable %v: get of what is at hand: %v", replaceable, err)
		}
		f.wantNames(f.list(ListOptions{}), "a/x")
		f.alter("a", "x", func(p *corev1.Pod) { p.Spec.NodeName = "n2" })
		_, err = f.pods.Get(f.ctx, f.pods.Key("a", "none"), "")
		if !apierrors.IsNotFound(err) {
			t.Errorf("replaceable %v: get of nothing: %v", replaceable, err)
		}
	}
}
