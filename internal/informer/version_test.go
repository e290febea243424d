package informer

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func versioned(name, version string) *corev1.Pod {
	p := pod(name, "")
	p.ResourceVersion = version
	return p
}

// TestStoreVersion: the store is at the version of the list, whatever its objects have, and then at that of each event
// and bookmark, with client-go's informers and with ours. Controllers wait for it.
func TestStoreVersion(t *testing.T) {
	for name, make := range map[string]func(cache.ListerWatcher) cache.SharedIndexInformer{
		"client-go": func(source cache.ListerWatcher) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, nil)
		},
		"ours": func(source cache.ListerWatcher) cache.SharedIndexInformer { return New(source, &corev1.Pod{}, 0, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			events := watch.NewFake()
			informer := make(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (kruntime.Object, error) {
					return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"},
						Items: []corev1.Pod{*versioned("a", "7"), *versioned("b", "3")}}, nil
				},
				WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
					if o.SendInitialEvents != nil {
						return nil, errors.New("a list is wanted")
					}
					return events, nil
				},
			})
			begin(t, informer)
			await(t, informer.HasSyncedChecker())
			at := func(want string) {
				t.Helper()
				read := informer.GetStore().LastStoreSyncResourceVersion
				for deadline := time.Now().Add(10 * time.Second); read() != want; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("the store is at %q, want %q", read(), want)
					}
				}
			}
			at("10")
			events.Modify(versioned("a", "12"))
			at("12")
			events.Action(watch.Bookmark, versioned("", "20"))
			at("20")
			events.Delete(versioned("b", "22"))
			at("22")
		})
	}
}

// A list with nothing in it has a version too, and a deletion of what isn't there.
func TestVersionWithoutObjects(t *testing.T) {
	informer := New(nil, &corev1.Pod{}, 0, nil)
	if err := (store{informer}).Replace(nil, "5"); err != nil {
		t.Error(err)
	}
	if got := informer.GetStore().LastStoreSyncResourceVersion(); got != "5" {
		t.Errorf("after an empty list: %q", got)
	}
	if err := (store{informer}).Delete(versioned("a", "6")); err != nil {
		t.Error(err)
	}
	if got := informer.GetStore().LastStoreSyncResourceVersion(); got != "6" {
		t.Errorf("after a deletion: %q", got)
	}
}

// A handler that ends its goroutine, as a test that fails does, is called no more, and no other is disturbed.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	informer := New(nil, &corev1.Pod{}, 0, nil)
	var told recorder
	calls := 0
	add(t, informer, cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		calls++
		runtime.Goexit()
	}})
	add(t, informer, &told)
	for _, name := range []string{"a", "b"} {
		if err := (store{informer}).Add(pod(name, "")); err != nil {
			t.Fatal(err)
		}
		informer.running.Wait()
	}
	told.is(t, "+a: true", "+b: true")
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}
