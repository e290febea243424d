package cache

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// widgets are of a custom resource whose v2 a webhook makes out of v1: spec.size is spec.length there, and a label says
// so.
type widgets struct {
	*fixture
	cache  *Cache
	v2     *api.Version
	fault  atomic.Pointer[error]
	hold   atomic.Pointer[chan struct{}] // conversions wait for it
	made   int64
	asked  atomic.Int32
	waited chan struct{} // holds an item for each conversion that waits
}

func startWidgets(t *testing.T) *widgets {
	w := &widgets{fixture: startMemory(t), waited: make(chan struct{}, 9)}
	v1, v2 := schema.GroupVersion{Group: "example.com", Version: "v1"},
		schema.GroupVersion{Group: "example.com", Version: "v2"}
	empty := func() api.Object { return &unstructured.Unstructured{Object: map[string]any{}} }
	asItIs := func(obj api.Object, _ bool) ([]string, error) { return nil, nil }
	kind := &api.Kind{
		Name: "Widget", Resource: "widgets", Prefix: "example.com/widgets", Hub: v1,
		Custom: &api.Custom{Remote: true},
		Versions: []api.Version{
			{GroupVersion: v1, New: empty, Coerce: asItIs,
				FromHub: func(obj api.Object) (api.Object, error) { return obj, nil }},
			{GroupVersion: v2, New: empty, Coerce: asItIs, FromHub: w.convert},
		},
		Fields: map[string]func(api.Object) string{"v2:spec.length": func(obj api.Object) string {
			length, _, _ := unstructured.NestedInt64(obj.(*unstructured.Unstructured).Object, "spec", "length")
			return fmt.Sprint(length)
		}},
	}
	w.v2, w.cache = &kind.Versions[1], w.set.Add(kind)
	w.must(w.cache.WaitReady(w.ctx))
	return w
}

func (w *widgets) convert(obj api.Object) (api.Object, error) {
	w.asked.Add(1)
	if hold := w.hold.Load(); hold != nil {
		w.waited <- struct{}{}
		<-*hold
	}
	if fault := w.fault.Load(); fault != nil {
		return nil, *fault
	}
	out := obj.(*unstructured.Unstructured).DeepCopy()
	size, _, _ := unstructured.NestedInt64(out.Object, "spec", "size")
	out.Object["spec"] = map[string]any{"length": size}
	out.SetAPIVersion("example.com/v2")
	out.SetLabels(map[string]string{"in": "v2"})
	return out, nil
}

// make makes an object that is like none before.
func (w *widgets) make(name string, size int64) *unstructured.Unstructured {
	w.made++
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"size": size, "edition": w.made},
	}}
}

func (w *widgets) create(name string, size int64) *Entry {
	w.Helper()
	e, err := w.cache.Create(w.ctx, w.cache.Key("", name), w.make(name, size), 0)
	w.must(err)
	return e
}

func (w *widgets) update(name string, size int64) {
	w.Helper()
	_, err := w.cache.Update(w.ctx, w.cache.Key("", name), nil,
		func(*Entry) (api.Object, error) { return w.make(name, size), nil })
	w.must(err)
}

func (w *widgets) ofLength(length string) Predicate {
	return Predicate{Field: fields.ParseSelectorOrDie("v2:spec.length=" + length), In: w.v2}
}

func (w *widgets) watch(o WatchOptions) *Watcher {
	w.Helper()
	watcher, err := w.cache.Watch(w.ctx, o)
	w.must(err)
	w.Cleanup(watcher.Close)
	return watcher
}

func (w *widgets) next(watcher *Watcher, want EventType, name string) {
	w.Helper()
	events, err := watcher.Next(w.ctx)
	w.must(err)
	if len(events) != 1 || events[0].Type != want || events[0].Entry.Object.GetName() != name {
		w.Fatalf("want %s %s, got %v", want, name, events)
	}
}

// TestSelectionWaitsAlone: while a webhook converts an object for a selector of another version, all caches go on.
func TestSelectionWaitsAlone(t *testing.T) {
	w := startWidgets(t)
	first := w.create("first", 1)
	from := first.Object.GetResourceVersion()
	watcher := w.watch(WatchOptions{ResourceVersion: from, Predicate: w.ofLength("3")})
	another := w.watch(WatchOptions{ResourceVersion: from})
	hold := make(chan struct{})
	w.hold.Store(&hold)
	w.create("a", 3)
	w.next(another, Added, "a")
	w.fixture.create("ns", "p", "n")
	w.wantNames(w.list(ListOptions{}), "ns/p")
	told := make(chan string, 1)
	go func() {
		events, err := watcher.Next(w.ctx)
		told <- fmt.Sprint(typesOf(events), err)
	}()
	<-w.waited
	w.fixture.create("ns", "q", "n")
	w.wantNames(w.list(ListOptions{}), "ns/p ns/q")
	w.hold.Store(nil)
	close(hold)
	if got := <-told; got != "[ADDED] <nil>" {
		t.Errorf("told %s", got)
	}
	if n := w.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func typesOf(events []Event) (out []EventType) {
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

// TestSelectionInTheVersionOfTheRequest: what comes, goes and stays is told by what objects are in that version, labels
// included.
func TestSelectionInTheVersionOfTheRequest(t *testing.T) {
	w := startWidgets(t)
	first := w.create("a", 1)
	byField := w.watch(WatchOptions{ResourceVersion: first.Object.GetResourceVersion(), Predicate: w.ofLength("3")})
	label := Predicate{Label: labels.SelectorFromSet(labels.Set{"in": "v2"}), In: w.v2}
	byLabel := w.watch(WatchOptions{Predicate: label})
	w.next(byLabel, Added, "a")
	for _, size := range []int64{3, 3, 4} {
		w.update("a", size)
		w.next(byLabel, Modified, "a")
	}
	var told []EventType
	for len(told) < 3 {
		events, err := byField.Next(w.ctx)
		w.must(err)
		told = append(told, typesOf(events)...)
	}
	if !slices.Equal(told, []EventType{Added, Modified, Deleted}) {
		t.Errorf("told %v", told)
	}
	for p, want := range map[*Predicate]int{new(w.ofLength("4")): 1, new(w.ofLength("3")): 0, &label: 1} {
		l, err := w.cache.List(w.ctx, ListOptions{Predicate: *p})
		w.must(err)
		if len(l.Entries) != want {
			t.Errorf("%v: %d listed, want %d", p, len(l.Entries), want)
		}
	}
}

// TestSelectionFails: whether an object that can't be converted matches is unknown, so a watch ends, and a list fails.
func TestSelectionFails(t *testing.T) {
	w := startWidgets(t)
	first := w.create("a", 3)
	watcher := w.watch(WatchOptions{Predicate: w.ofLength("3")})
	w.next(watcher, Added, "a")
	fault := errors.New("out of order")
	w.fault.Store(&fault)
	w.update("a", 3)
	if events, err := watcher.Next(w.ctx); !errors.Is(err, fault) {
		t.Errorf("watch: %v, %v", events, err)
	}
	anew := w.watch(WatchOptions{Predicate: w.ofLength("3")})
	if events, err := anew.Next(w.ctx); !errors.Is(err, fault) {
		t.Errorf("initial events: %v, %v", events, err)
	}
	if _, err := w.cache.List(w.ctx, ListOptions{Predicate: w.ofLength("3")}); !errors.Is(err, fault) {
		t.Errorf("list: %v", err)
	}
	m := newMatcher(w.cache.kind, w.cache.keys, "", w.ofLength("3"))
	if _, err := w.cache.pageFromStore(w.ctx, first.Revision, ListOptions{}, m, m.prefix); !errors.Is(err, fault) {
		t.Errorf("list of the past: %v", err)
	}
}
