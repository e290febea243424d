package registry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestFeedBeginsAgain: a feed whose watch ended tells what happened meanwhile, once, and goes on from there.
func TestFeedBeginsAgain(t *testing.T) {
	maps := registrytest.ConfigMaps(t, memory.New(nil))
	put := func(name string) {
		t.Helper()
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		if _, err := maps.Create(t.Context(), maps.Key("a", name), obj, 0); err != nil {
			t.Error(err)
		}
	}
	told := make(chan string, 10)
	f := feed{cache: maps, known: map[string]api.Object{}, changed: func(old, now api.Object) {
		switch {
		case now == nil:
			told <- "-" + old.GetName()
		case old == nil:
			told <- "+" + now.GetName()
		default:
			told <- "~" + now.GetName()
		}
	}}
	// round follows, does something once what there is has been told, and stops after the last change that is expected.
	round := func(then func(), want ...string) {
		t.Helper()
		if _, err := maps.List(t.Context(), cache.ListOptions{}); err != nil { // a feed begins with what the cache has
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- f.follow(ctx, func() {
				told <- "synced"
				then()
			})
		}()
		for _, w := range want {
			if got := <-told; got != w {
				t.Errorf("told %s, want %s", got, w)
			}
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}
	put("x")
	put("y")
	round(func() { put("z") }, "+x", "+y", "synced", "+z")
	if _, err := maps.Delete(t.Context(), maps.Key("a", "x"), func(*cache.Entry) error { return nil }); err != nil {
		t.Fatal(err)
	}
	put("w")
	round(func() { put("v") }, "+w", "-x", "synced", "+v")
}

// kept is a store from which nothing can be removed.
type kept struct{ storage.Store }

func (kept) Delete(context.Context, string, int64) (int64, error) { return 0, storage.ErrClosed }

// TestUpdateThatCannotRemove: an object that should go with its last finalizer, and can't, keeps what was allocated for
// it.
func TestUpdateThatCannotRemove(t *testing.T) {
	maps := registrytest.ConfigMaps(t, kept{memory.New(nil)})
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "x", Finalizers: []string{"a/b"}, DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)},
	}}
	if _, err := maps.Create(t.Context(), maps.Key("a", "x"), obj, 0); err != nil {
		t.Fatal(err)
	}
	released := false
	kind := *maps.Kind()
	kind.Strategy.Allocate = func(context.Context, api.Object, api.Object, bool) (func(api.Outcome), error) {
		released = true
		return nil, nil
	}
	ep := &Endpoint{Kind: &kind, Cache: maps, Strategy: &kind.Strategy}
	w := ep.Writer(&Request{Namespace: "a", Name: "x"})
	_, err := updateStored(t.Context(), w, func(obj api.Object) (api.Object, error) {
		obj.SetFinalizers(nil)
		return obj, nil
	})
	if err == nil || released {
		t.Errorf("got %v, released %v", err, released)
	}
}

// TestFeedOfRestoredStore: an object of a store that was restored is told of though another one had its version before.
func TestFeedOfRestoredStore(t *testing.T) {
	told := 0
	f := feed{known: map[string]api.Object{}, changed: func(_, _ api.Object) { told++ }}
	for _, value := range []string{"before", "before", "after"} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "50"},
			Data: map[string]string{"a": value}}
		f.put(&cache.Entry{Key: "/a", Object: obj})
	}
	if told != 2 {
		t.Errorf("told %d times", told)
	}
}

// TestStrictReader: what can't be read is neither left out nor not found.
func TestStrictReader(t *testing.T) {
	store := memory.New(nil)
	if _, err := store.Create(t.Context(), "/registry/configmaps/a/bad", []byte("nonsense"), 0); err != nil {
		t.Fatal(err)
	}
	maps, resource := registrytest.ConfigMaps(t, store), corev1.Resource("configmaps")
	if err := maps.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := StrictReader{&Local{registry: &Registry{}, endpoints: map[schema.GroupResource]*Endpoint{
		resource: {Kind: maps.Kind(), Cache: maps},
	}}}
	if list, err := s.List(t.Context(), resource, "a"); !unreadable(err) {
		t.Errorf("listed %v, %v", list, err)
	}
	if list, err := s.List(t.Context(), resource, "b"); len(list) > 0 || err != nil {
		t.Errorf("listed beside it %v, %v", list, err)
	}
	if got, err := s.Get(t.Context(), resource, "a", "bad"); !unreadable(err) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := s.Get(t.Context(), resource, "a", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, %v", got, err)
	}
	set, err := cache.NewSet(cache.Config{Store: store}) // which doesn't run
	if err != nil {
		t.Fatal(err)
	}
	s.endpoints[resource].Cache = set.Add(maps.Kind())
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if list, err := s.List(impatient, resource, "b"); err == nil {
		t.Errorf("listed %v before anything has come", list)
	}
}

// unreadable tells whether an object could not be read; nothing else fails so.
func unreadable(err error) bool {
	return err != nil && strings.Contains(err.Error(), "json parse error")
}
