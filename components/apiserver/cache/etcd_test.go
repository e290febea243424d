package cache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/etcd"
	"quintet.dev/quintet/components/apiserver/storage/etcdtest"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// stores are what the cache must work on.
func stores(t *testing.T) map[string]storage.Store {
	s, err := etcd.New(etcd.Config{Endpoints: []string{etcdtest.Start(t)}})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]storage.Store{"etcd": s, "memory": memory.New(nil)}
}

// TestReadsAfterWritesOfOthers: keys outside the prefix move the store's revision, and no event tells.
func TestReadsAfterWritesOfOthers(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			f := start(t, store, Config{})
			f.create("a", "x", "")
			for i := range 3 {
				_, err := store.Create(f.ctx, fmt.Sprintf("/other/%d", i), nil, 0)
				f.must(err)
				f.wantNames(f.list(ListOptions{}), "a/x")
			}
		})
	}
}

// TestTwoServers: what one has acknowledged, the other tells at once.
func TestTwoServers(t *testing.T) {
	endpoint := etcdtest.Start(t)
	var servers []*fixture
	for range 2 {
		s, err := etcd.New(etcd.Config{Endpoints: []string{endpoint}})
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, start(t, s, Config{}))
	}
	servers[0].create("a", "x", "")
	for i := range 100 {
		writer, reader := servers[i%2], servers[(i+1)%2]
		e := writer.alter("a", "x", func(p *corev1.Pod) { p.Generation++ })
		got, err := reader.pods.Get(reader.ctx, e.Key, "")
		reader.must(err)
		if got.Revision != e.Revision || got.Object.GetGeneration() != int64(i)+1 {
			t.Fatalf("read generation %d at %d after %d at %d", got.Object.GetGeneration(), got.Revision, i+1,
				e.Revision)
		}
	}
}

// TestFollowers lets writers work while mirrors list and watch, are ended, and begin again; in the end each mirror must
// hold what the store holds.
func TestFollowers(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			f := start(t, store, Config{Events: 50})
			done, stop := context.WithCancel(f.ctx)
			mirrors := []*mirror{
				{fixture: f}, {fixture: f, namespace: "n1"}, {fixture: f, field: "spec.nodeName=node1"},
				{fixture: f, field: "metadata.name=p3"},
			}
			var running, writing sync.WaitGroup
			for i, m := range mirrors {
				running.Go(func() { m.follow(done, rand.New(rand.NewPCG(1, uint64(i)))) })
			}
			for i := range 3 {
				writing.Go(func() { scribble(f, rand.New(rand.NewPCG(2, uint64(i)))) })
			}
			writing.Wait()
			final := f.list(ListOptions{}).Revision
			for _, m := range mirrors {
				m.until(final)
			}
			stop()
			running.Wait()
			for _, m := range mirrors {
				m.compare()
			}
		})
	}
}

// scribble creates, changes and deletes pods; it may meet the others' work.
func scribble(f *fixture, r *rand.Rand) {
	for range 400 {
		namespace, name := fmt.Sprintf("n%d", r.IntN(3)), fmt.Sprintf("p%d", r.IntN(8))
		node := fmt.Sprintf("node%d", r.IntN(3))
		key := f.pods.Key(namespace, name)
		var err error
		switch r.IntN(4) {
		case 0:
			_, err = f.pods.Delete(f.ctx, key, nil)
		case 1:
			_, err = f.pods.Create(f.ctx, key, pod(namespace, name, node), 0)
		default:
			_, err = f.pods.Update(f.ctx, key, nil,
				changing(func(p *corev1.Pod) { p.Spec.NodeName = node; p.Generation++ }))
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			f.Error(err)
		}
	}
}

// mirror rebuilds a part of the state from a list and the events after it.
type mirror struct {
	*fixture
	namespace, field string

	mu       sync.Mutex
	state    map[string]int64 // revisions by key
	revision int64
}

func (m *mirror) predicate() Predicate {
	if m.field == "" {
		return Predicate{}
	}
	return Predicate{Field: fields.ParseSelectorOrDie(m.field)}
}

func (m *mirror) follow(ctx context.Context, r *rand.Rand) {
	fresh := true
	for ctx.Err() == nil {
		if fresh {
			l := m.list(ListOptions{Namespace: m.namespace, Predicate: m.predicate()})
			m.mu.Lock()
			m.state, m.revision = map[string]int64{}, l.Revision
			for _, e := range l.Entries {
				m.state[e.Key] = e.Revision
			}
			m.mu.Unlock()
		}
		short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(20)+1)*time.Millisecond)
		w, err := m.pods.Watch(short,
			WatchOptions{Namespace: m.namespace, Predicate: m.predicate(), ResourceVersion: formatRevision(m.revision)})
		if err == nil {
			fresh = m.take(short, w)
			w.Close()
		} else if fresh = true; !apierrors.IsResourceExpired(err) && short.Err() == nil {
			m.Error(err)
		}
		cancel()
	}
}

// take applies events until the watch ends, and reports whether it must be begun with a list.
func (m *mirror) take(ctx context.Context, w *Watcher) bool {
	for {
		events, err := w.Next(ctx)
		m.mu.Lock()
		for _, e := range events {
			before, known := m.state[e.Entry.Key]
			if e.Entry.Revision <= m.revision || known == (e.Type == Added) || known && before >= e.Entry.Revision {
				m.Errorf("%s of %s at %d, known at %d, after %d", e.Type, e.Entry.Key, e.Entry.Revision, before,
					m.revision)
			}
			if m.revision = e.Entry.Revision; e.Type == Deleted {
				delete(m.state, e.Entry.Key)
			} else {
				m.state[e.Entry.Key] = e.Entry.Revision
			}
		}
		m.mu.Unlock()
		if err != nil {
			return ctx.Err() == nil
		}
	}
}

// until waits for the mirror to hold what there is at a revision after which nothing is written.
func (m *mirror) until(revision int64) {
	deadline := time.After(time.Minute)
	for !m.equal() {
		select {
		case <-deadline:
			m.Fatalf("the mirror of %q %q doesn't reach %d", m.namespace, m.field, revision)
		case <-time.After(time.Millisecond):
		}
	}
}

func (m *mirror) equal() bool {
	l := m.list(ListOptions{Namespace: m.namespace, Predicate: m.predicate()})
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(l.Entries) != len(m.state) {
		return false
	}
	for _, e := range l.Entries {
		if m.state[e.Key] != e.Revision {
			return false
		}
	}
	return true
}

func (m *mirror) compare() {
	m.Helper()
	if !m.equal() {
		m.Errorf("the mirror of %q %q differs from the cache", m.namespace, m.field)
	}
	page, err := m.store.List(m.ctx, storage.Range{Prefix: m.pods.keys.prefix})
	m.must(err)
	l := m.list(ListOptions{})
	if len(page.Items) != len(l.Entries) {
		m.Fatalf("the cache has %d objects, the store %d", len(l.Entries), len(page.Items))
	}
	for i, kv := range page.Items {
		if e := l.Entries[i]; e.Key != kv.Key || e.Revision != kv.Revision {
			m.Errorf("the cache has %s at %d, the store %s at %d", e.Key, e.Revision, kv.Key, kv.Revision)
		}
	}
}

// TestSlowWatcherIsEnded: the cache doesn't wait for it.
func TestSlowWatcherIsEnded(t *testing.T) {
	f := startMemory(t)
	behind, fell := context.WithCancel(f.ctx)
	w, err := f.pods.Watch(f.ctx, WatchOptions{Behind: fell})
	f.must(err)
	defer w.Close()
	f.create("a", "x", "")
	for i := range maxBacklog + 1 {
		f.alter("a", "x", func(p *corev1.Pod) { p.Generation = int64(i) + 1 })
	}
	f.list(ListOptions{})
	<-behind.Done()
	for {
		if _, err := w.Next(f.ctx); err != nil {
			if !apierrors.IsResourceExpired(err) {
				t.Fatalf("ended with %v", err)
			}
			if n := f.pods.Counts().Behind; n != 1 {
				t.Errorf("counted %d", n)
			}
			return
		}
	}
}

// TestKindsComeAndGo adds a cache to a set that runs.
func TestKindsComeAndGo(t *testing.T) {
	f := startMemory(t)
	row := podKind()
	row.Resource, row.Prefix = "others", "group/others"
	key := "/registry/group/others/a/x"
	value, err := f.pods.codec.stored.Encode(pod("a", "x", ""))
	f.must(err)
	_, err = f.store.Create(f.ctx, key, value, 0)
	f.must(err)
	c := f.set.Add(row)
	if e, err := c.Get(f.ctx, key, ""); err != nil || e.Object.GetName() != "x" {
		t.Fatalf("got %v, %v", e, err)
	}
	w, err := c.Watch(f.ctx, WatchOptions{})
	f.must(err)
	defer w.Close()
	_, err = w.Next(f.ctx)
	f.must(err)
	if !c.Enter() {
		t.Fatal("a cache can't be used")
	}
	f.set.Remove(c)
	instead := f.set.Add(row)
	_, err = instead.Update(f.ctx, key, nil, func(*Entry) (api.Object, error) { return pod("a", "x", "n"), nil })
	f.must(err)
	for _, c := range []*Cache{c, instead} {
		if e, err := c.Get(f.ctx, key, ""); err != nil || e.Object.(*corev1.Pod).Spec.NodeName != "n" {
			t.Errorf("got %v, %v", e, err)
		}
	}
	c.Leave()
	if c.Enter() {
		t.Error("a removed cache can be used")
	}
	_, err = w.Next(f.ctx) // the change
	if err == nil {
		_, err = w.Next(f.ctx)
	}
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the watch ended with %v", err)
	}
	if _, err := c.Get(f.ctx, key, ""); err == nil {
		t.Error("a removed cache answers")
	}
}
