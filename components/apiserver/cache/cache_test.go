package cache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podKind is a row with an index, as that of pods.
func podKind() *api.Kind {
	return &api.Kind{
		Name: "Pod", Resource: "pods", Prefix: "pods", Namespaced: true, Hub: corev1.SchemeGroupVersion,
		Versions: []api.Version{
			{GroupVersion: corev1.SchemeGroupVersion, New: func() api.Object { return &corev1.Pod{} }}},
		Fields: map[string]func(api.Object) string{
			"spec.nodeName": func(o api.Object) string { return o.(*corev1.Pod).Spec.NodeName },
			"status.phase":  func(o api.Object) string { return string(o.(*corev1.Pod).Status.Phase) },
		},
		Indexed: []string{"spec.nodeName"},
	}
}

type fixture struct {
	testing.TB
	ctx   context.Context
	store storage.Store
	set   *Set
	pods  *Cache
}

func start(t testing.TB, store storage.Store, config Config) *fixture {
	t.Helper()
	config.Store = store
	set, err := NewSet(config)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{TB: t, store: store, set: set, pods: set.Add(podKind())}
	ctx, cancel := context.WithCancel(context.Background())
	f.ctx = ctx
	var running sync.WaitGroup
	running.Go(func() {
		if err := set.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		store.Close()
	})
	ready, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	if err := set.WaitReady(ready); err != nil {
		t.Fatal(err)
	}
	return f
}

func startMemory(t testing.TB) *fixture { return start(t, memory.New(nil), Config{}) }

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name[:1]}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func (f *fixture) create(namespace, name, node string) *Entry {
	f.Helper()
	e, err := f.pods.Create(f.ctx, f.pods.Key(namespace, name), pod(namespace, name, node), 0)
	f.must(err)
	return e
}

// alter makes an update that changes a copy of the pod.
func (f *fixture) alter(namespace, name string, change func(*corev1.Pod)) *Entry {
	f.Helper()
	e, err := f.pods.Update(f.ctx, f.pods.Key(namespace, name), nil, changing(change))
	f.must(err)
	return e
}

func changing(change func(*corev1.Pod)) Mutate {
	return func(current *Entry) (api.Object, error) {
		p := current.Object.(*corev1.Pod).DeepCopy()
		change(p)
		return p, nil
	}
}

func (f *fixture) remove(namespace, name string) *Entry {
	f.Helper()
	e, err := f.pods.Delete(f.ctx, f.pods.Key(namespace, name), nil)
	f.must(err)
	return e
}

func (f *fixture) list(o ListOptions) *List {
	f.Helper()
	l, err := f.pods.List(f.ctx, o)
	f.must(err)
	return l
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func names(l *List) string {
	var out []string
	for _, e := range l.Entries {
		out = append(out, e.Object.GetNamespace()+"/"+e.Object.GetName())
	}
	return strings.Join(out, " ")
}

func (f *fixture) wantNames(l *List, want string) {
	f.Helper()
	if got := names(l); got != want {
		f.Fatalf("listed %q, want %q", got, want)
	}
}

// forgetPast leaves the cache with nothing but the present.
func (f *fixture) forgetPast() {
	f.list(ListOptions{})
	f.pods.state.mu.Lock()
	defer f.pods.state.mu.Unlock()
	f.pods.state.objects.kept = nil
}

func TestWritesAreReadAtOnce(t *testing.T) {
	f := startMemory(t)
	for i := range 200 {
		name := fmt.Sprintf("p%d", i)
		created := f.create("a", name, "")
		got, err := f.pods.Get(f.ctx, created.Key, "")
		f.must(err)
		if got != created {
			t.Fatal("the watch has made another entry of what was written here")
		}
		if rv := got.Object.GetResourceVersion(); rv != formatRevision(created.Revision) {
			t.Fatalf("resourceVersion is %s at revision %d", rv, created.Revision)
		}
		f.alter("a", name, func(p *corev1.Pod) { p.Spec.NodeName = "n" })
		if got, _ := f.pods.Get(f.ctx, created.Key, ""); got.Object.(*corev1.Pod).Spec.NodeName != "n" {
			t.Fatal("an update is not seen")
		}
		f.remove("a", name)
		if _, err := f.pods.Get(f.ctx, created.Key, ""); !apierrors.IsNotFound(err) {
			t.Fatalf("after a delete: %v", err)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	f := startMemory(t)
	f.create("a", "x", "")
	_, err := f.pods.Create(f.ctx, f.pods.Key("a", "x"), pod("a", "x", ""), 0)
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("second create: %v", err)
	}
	_, err = f.pods.Update(f.ctx, f.pods.Key("a", "y"), nil, changing(func(*corev1.Pod) {}))
	if !apierrors.IsNotFound(err) {
		t.Errorf("update of nothing: %v", err)
	}
	refusal := apierrors.NewConflict(f.pods.resource, "x", fmt.Errorf("no"))
	_, err = f.pods.Delete(f.ctx, f.pods.Key("a", "x"), func(*Entry) error { return refusal })
	if err != refusal {
		t.Errorf("refused delete: %v", err)
	}
	_, err = f.pods.Delete(f.ctx, f.pods.Key("a", "y"), nil)
	if !apierrors.IsNotFound(err) {
		t.Errorf("delete of nothing: %v", err)
	}
}

func TestUpdateToTheSameWritesNothing(t *testing.T) {
	f := startMemory(t)
	created := f.create("a", "x", "")
	for _, mutate := range []Mutate{
		changing(func(*corev1.Pod) {}),
		func(current *Entry) (api.Object, error) { return current.Object, nil },
	} {
		again, err := f.pods.Update(f.ctx, created.Key, nil, mutate)
		f.must(err)
		if again.Revision != created.Revision || again.Object.GetResourceVersion() != formatRevision(created.Revision) {
			t.Fatalf("written at %d, as %s", again.Revision, again.Object.GetResourceVersion())
		}
	}
}

// TestUpdateAfterOthers has another server change the object behind the cache's back.
func TestUpdateAfterOthers(t *testing.T) {
	store := memory.New(nil)
	f := start(t, store, Config{})
	created := f.create("a", "x", "")
	other := pod("a", "x", "there")
	value, err := f.pods.codec.stored.Encode(other)
	f.must(err)
	_, err = store.Update(f.ctx, created.Key, value, created.Revision, 0)
	f.must(err)
	e, err := f.pods.Update(f.ctx, created.Key, nil, changing(func(p *corev1.Pod) { p.Labels["new"] = "1" }))
	f.must(err)
	if p := e.Object.(*corev1.Pod); p.Spec.NodeName != "there" || p.Labels["new"] != "1" {
		t.Fatalf("an update was lost: %v", p)
	}
}

func TestRacingUpdates(t *testing.T) {
	f := startMemory(t)
	f.create("a", "x", "")
	var wg sync.WaitGroup
	const writers, each = 8, 50
	for range writers {
		wg.Go(func() {
			for range each {
				_, err := f.pods.Update(f.ctx, f.pods.Key("a", "x"), nil,
					changing(func(p *corev1.Pod) { p.Generation++ }))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	e, err := f.pods.Get(f.ctx, f.pods.Key("a", "x"), "")
	f.must(err)
	if g := e.Object.GetGeneration(); g != writers*each {
		t.Fatalf("%d updates are left of %d", g, writers*each)
	}
}
