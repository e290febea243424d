package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name, phase string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Status: corev1.PodStatus{Phase: corev1.PodPhase(phase)}}
}

// recorder is a handler that keeps what it is told; a call waits while it is held.
type recorder struct {
	held sync.Mutex

	mu    sync.Mutex
	calls []string
}

func (r *recorder) note(format string, args ...any) {
	r.held.Lock()
	defer r.held.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func text(obj any) string {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return "unknown " + text(unknown.Obj)
	}
	p := obj.(*corev1.Pod)
	return p.Name + ":" + string(p.Status.Phase)
}

func (r *recorder) OnAdd(obj any, initial bool) { r.note("+%s %t", text(obj), initial) }
func (r *recorder) OnUpdate(old, now any)       { r.note("%s>%s", text(old), text(now)) }
func (r *recorder) OnDelete(obj any)            { r.note("-%s", text(obj)) }

func (r *recorder) have() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// is waits until the recorder has been told as much, and checks it.
func (r *recorder) is(t *testing.T, want ...string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(r.have()) < len(want) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if got := r.have(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func await(t *testing.T, what cache.DoneChecker) {
	t.Helper()
	select {
	case <-what.Done():
	case <-time.After(time.Minute):
		t.Fatalf("%s does not sync", what.Name())
	}
}

// begin runs an informer until the returned function, which waits for its end, or the end of the test.
func begin(t *testing.T, informer cache.SharedIndexInformer) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	end = func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	return end
}

func add(t *testing.T, informer cache.SharedIndexInformer,
	handler cache.ResourceEventHandler) cache.ResourceEventHandlerRegistration {
	t.Helper()
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		t.Fatal(err)
	}
	return registration
}

// TestContract is what handlers and readers count on, of client-go's informers and of ours.
func TestContract(t *testing.T) {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	for name, make := range map[string]func(cache.ListerWatcher) cache.SharedIndexInformer{
		"client-go": func(source cache.ListerWatcher) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, indexers)
		},
		"ours": func(source cache.ListerWatcher) cache.SharedIndexInformer {
			return New(source, &corev1.Pod{}, 0, indexers)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for what, test := range map[string]func(*testing.T, *cachetesting.FakeControllerSource,
				cache.SharedIndexInformer){
				"events": testEvents, "late": testLateHandler, "slow": testSlowHandler, "removed": testRemovedHandler,
				"transform": testTransform, "life": testLife, "resync period": testResyncPeriod,
			} {
				t.Run(what, func(t *testing.T) {
					source := cachetesting.NewFakeControllerSource()
					t.Cleanup(source.Shutdown)
					test(t, source, make(source))
				})
			}
		})
	}
}

// Each handler gets all events in their order; those that the watch missed come with the next list.
func testEvents(t *testing.T, source *cachetesting.FakeControllerSource, informer cache.SharedIndexInformer) {
	var first, second recorder
	source.Add(pod("a", "1"))
	handlers := []cache.ResourceEventHandlerRegistration{add(t, informer, &first), add(t, informer, &second)}
	if informer.HasSynced() || handlers[0].HasSynced() {
		t.Error("synced before it runs")
	}
	begin(t, informer)
	for _, h := range handlers {
		await(t, h.HasSyncedChecker())
		if !h.HasSynced() || !informer.HasSynced() {
			t.Error("not synced")
		}
	}
	await(t, informer.HasSyncedChecker())
	for _, r := range []*recorder{&first, &second} {
		r.is(t, "+a:1 true")
	}
	source.Add(pod("b", "1"))
	source.Modify(pod("b", "2"))
	source.Delete(pod("a", "3"))
	want := []string{"+a:1 true", "+b:1 false", "b:1>b:2", "-a:3"}
	for _, r := range []*recorder{&first, &second} {
		r.is(t, want...)
	}
	if version := informer.LastSyncResourceVersion(); version != "4" {
		t.Errorf("resource version %s", version)
	}
	source.AddDropWatch(pod("c", "1"))
	source.DeleteDropWatch(pod("b", "2"))
	source.ResetWatch()
	want = append(want, "-unknown b:2", "+c:1 false")
	for _, r := range []*recorder{&first, &second} {
		r.is(t, want...)
	}
	found, err := informer.GetIndexer().ByIndex(cache.NamespaceIndex, "ns")
	if err != nil || len(found) != 1 || text(found[0]) != "c:1" || len(informer.GetStore().ListKeys()) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
}

// A handler that comes late is told of what is there, and then of changes; it is synced after the former.
func testLateHandler(t *testing.T, source *cachetesting.FakeControllerSource, informer cache.SharedIndexInformer) {
	source.Add(pod("a", "1"))
	begin(t, informer)
	await(t, informer.HasSyncedChecker())
	var late recorder
	late.held.Lock()
	registration := add(t, informer, &late)
	source.Modify(pod("a", "2"))
	if registration.HasSynced() {
		t.Error("synced before it was told of what is there")
	}
	late.held.Unlock()
	await(t, registration.HasSyncedChecker())
	late.is(t, "+a:1 true", "a:1>a:2")
}

// A handler that is slow holds no other up, and misses nothing.
func testSlowHandler(t *testing.T, source *cachetesting.FakeControllerSource, informer cache.SharedIndexInformer) {
	var slow, fast recorder
	add(t, informer, &slow)
	add(t, informer, &fast)
	begin(t, informer)
	await(t, informer.HasSyncedChecker())
	slow.held.Lock()
	var want []string
	for i := range 50 {
		name := fmt.Sprint(i)
		source.Add(pod(name, "1"))
		want = append(want, "+"+name+":1 false")
	}
	fast.is(t, want...)
	slow.is(t)
	slow.held.Unlock()
	slow.is(t, want...)
}

// A handler that is removed is told nothing more.
func testRemovedHandler(t *testing.T, source *cachetesting.FakeControllerSource, informer cache.SharedIndexInformer) {
	var removed, other recorder
	registration := add(t, informer, &removed)
	add(t, informer, &other)
	begin(t, informer)
	source.Add(pod("a", "1"))
	await(t, informer.HasSyncedChecker())
	for _, r := range []*recorder{&removed, &other} {
		for len(r.have()) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if err := informer.RemoveEventHandler(registration); err != nil {
		t.Fatal(err)
	}
	source.Add(pod("b", "1"))
	for len(other.have()) < 2 {
		time.Sleep(time.Millisecond)
	}
	if got := removed.have(); len(got) != 1 {
		t.Errorf("told %q", got)
	}
}

// All that is stored and told of is transformed.
func testTransform(t *testing.T, source *cachetesting.FakeControllerSource, informer cache.SharedIndexInformer) {
	err := informer.SetTransform(func(obj any) (any, error) {
		if p, ok := obj.(*corev1.Pod); ok {
			p = p.DeepCopy()
			p.Status.Phase = "T"
			return p, nil
		}
		return obj, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var told recorder
	add(t, informer, &told)
	source.Add(pod("a", "1"))
	begin(t, informer)
	told.is(t, "+a:T true")
	source.Add(pod("b", "1"))
	source.Delete(pod("a", "2"))
	told.is(t, "+a:T true", "+b:T false", "-a:T")
	if all := informer.GetStore().List(); len(all) != 1 || text(all[0]) != "b:T" {
		t.Errorf("stored: %v", all)
	}
}

// An informer runs once, and waits in the end for a handler that is being called; then it takes no other.
func testLife(t *testing.T, source *cachetesting.FakeControllerSource, informer cache.SharedIndexInformer) {
	source.Add(pod("a", "1"))
	source.Add(pod("b", "1"))
	var told recorder
	told.held.Lock()
	registration := add(t, informer, &told)
	end := begin(t, informer)
	await(t, informer.HasSyncedChecker())
	informer.RunWithContext(t.Context())
	if err := informer.SetTransform(func(obj any) (any, error) { return obj, nil }); err == nil {
		t.Error("a transform is set while it runs")
	}
	if informer.IsStopped() || registration.HasSynced() {
		t.Error("it is stopped, or synced")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end()
	}()
	select {
	case <-ended:
		t.Error("it ends before its handler")
	case <-time.After(50 * time.Millisecond):
	}
	told.held.Unlock()
	<-ended
	if _, err := informer.AddEventHandler(&told); err == nil || !informer.IsStopped() {
		t.Errorf("a handler is added after the end: %v", err)
	}
	if err := informer.AddIndexers(cache.Indexers{}); err == nil {
		t.Error("indexers are added after the end")
	}
}

// testResyncPeriod: a handler may ask for resyncs of an informer that has none; it is told of all objects.
func testResyncPeriod(t *testing.T, source *cachetesting.FakeControllerSource, informer cache.SharedIndexInformer) {
	source.Add(pod("a", "1"))
	var told recorder
	registration, err := informer.AddEventHandlerWithResyncPeriod(&told, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, informer)
	await(t, registration.HasSyncedChecker())
	told.is(t, "+a:1 true")
}

// Resyncs come at the informer's period, to all handlers; others can't be had.
func TestResync(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	t.Cleanup(source.Shutdown)
	source.Add(pod("a", "1"))
	informer := New(source, &corev1.Pod{}, 10*time.Millisecond, nil)
	var told recorder
	if _, err := informer.AddEventHandlerWithResyncPeriod(&told, time.Hour); err == nil {
		t.Error("a handler has a resync period of its own")
	}
	if _, err := informer.AddEventHandlerWithResyncPeriod(&told, 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(nil); err == nil {
		t.Error("a handler of errors is set")
	}
	if err := informer.RemoveEventHandler(add(t, New(source, &corev1.Pod{}, 0, nil), &told)); err == nil {
		t.Error("another's handler is removed")
	}
	begin(t, informer)
	for len(told.have()) < 3 {
		time.Sleep(time.Millisecond)
	}
	if got := told.have()[:3]; !slices.Equal(got, []string{"+a:1 true", "a:1>a:1", "a:1>a:1"}) {
		t.Errorf("told %q", got)
	}
}

// What can't be transformed is an error of the reflector, and stays out.
func TestTransformFails(t *testing.T) {
	informer := New(nil, &corev1.Pod{}, 0, nil)
	bad := errors.New("bad")
	_ = informer.SetTransform(func(obj any) (any, error) { return nil, bad })
	s := store{informer}
	if s.Add(pod("a", "")) != bad || s.Update(pod("a", "")) != bad || s.Delete(pod("a", "")) != bad ||
		s.Replace([]any{pod("a", "")}, "") != bad {
		t.Error("no error")
	}
	if informer.HasSynced() || len(informer.GetStore().List()) > 0 {
		t.Error("it was stored")
	}
}

// A deletion of what isn't there is no event.
func TestUnknownDeletion(t *testing.T) {
	informer := New(nil, &corev1.Pod{}, 0, nil)
	var told recorder
	add(t, informer, &told)
	if err := (store{informer}).Delete(pod("a", "")); err != nil {
		t.Error(err)
	}
	informer.running.Wait()
	told.is(t)
}

// Handlers have goroutines only while there are events for them.
func TestIdleHandlersHaveNoGoroutine(t *testing.T) {
	informer := New(nil, &corev1.Pod{}, 0, nil)
	var told recorder
	for range 3 {
		add(t, informer, &told)
	}
	for _, name := range []string{"a", "b"} {
		if err := (store{informer}).Add(pod(name, "")); err != nil {
			t.Fatal(err)
		}
		informer.running.Wait() // for all goroutines
	}
	if got := told.have(); len(got) != 6 {
		t.Errorf("told %q", got)
	}
}
