package cache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestKeyIsLost: where keys may be replaced, a get of the newest fails once the key of the object is lost. As with
// upstream, all others are answered from memory, and writes, too, begin with what is there.
func TestKeyIsLost(t *testing.T) {
	for _, replaceable := range []bool{true, false} {
		keys := &keeper{}
		f := start(t, keys.seal(memory.New(nil)),
			Config{Replaceable: func(schema.GroupResource) bool { return replaceable }})
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
		if err := f.pods.Confirm(f.ctx, made.Key); apierrors.IsInternalError(err) != replaceable ||
			(err == nil) == replaceable {
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

// TestDirectKeyIsLost: where there is no cache upstream, every get, list and write fails that finds the object.
func TestDirectKeyIsLost(t *testing.T) {
	yes := func(schema.GroupResource) bool { return true }
	keys := &keeper{}
	f := start(t, keys.seal(memory.New(nil)), Config{Replaceable: yes, Direct: func(*api.Kind) bool { return true }})
	f.create("b", "y", "n1")
	made := f.create("a", "x", "n1")
	exact := ListOptions{ResourceVersion: formatRevision(made.Revision),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	for _, lost := range []bool{false, true} {
		keys.away.Store(lost)
		errs := map[string]error{}
		_, errs["get"] = f.pods.Get(f.ctx, made.Key, "0")
		l, err := f.pods.List(f.ctx, ListOptions{ResourceVersion: "0", Limit: 1})
		if err == nil && (len(l.Entries) != 1 || l.Entries[0].Key != made.Key || l.Continue == "" ||
			*l.Remaining != 1 || l.Revision < made.Revision) {
			t.Errorf("listed %+v", l)
		}
		errs["list"] = err
		_, errs["exact list"] = f.pods.List(f.ctx, exact)
		_, errs["update"] = f.pods.Update(f.ctx, made.Key, nil,
			func(e *Entry) (api.Object, error) { return e.Object, nil })
		for what, err := range errs {
			if (err != nil) != lost || lost && !apierrors.IsInternalError(err) {
				t.Errorf("lost %v: %s: %v", lost, what, err)
			}
		}
	}
}
