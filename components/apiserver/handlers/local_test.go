package handlers

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// TestFeedBeginsAgain: a feed whose watch ended tells what happened meanwhile, once, and goes on from there.
func TestFeedBeginsAgain(t *testing.T) {
	maps := configMaps(t)
	put := func(name string) {
		t.Helper()
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		if _, err := maps.Create(t.Context(), maps.Key("a", name), obj, 0); err != nil {
			t.Error(err)
		}
	}
	told := make(chan string, 10)
	f := feed{cache: maps, known: map[string]kinds.Object{}, changed: func(old, now kinds.Object) {
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
