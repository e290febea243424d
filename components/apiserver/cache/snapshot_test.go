package cache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// byNode is an index as that of pods is.
var byNode = []index{{field: "spec.nodeName", value: func(o api.Object) string {
	return o.(*corev1.Pod).Spec.NodeName
}}}

// randomPod is one of few keys, nodes, versions and sizes, so that entries replace each other often.
func randomPod(r *rand.Rand, revision int64) *Entry {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: fmt.Sprintf("example.com/v%d", r.IntN(2)), Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", r.IntN(12))},
		Spec:       corev1.PodSpec{NodeName: fmt.Sprint("n", r.IntN(3))},
	}
	return &Entry{Key: pod.Name, Revision: revision, Object: pod, size: r.IntN(100)}
}

// agrees compares a tree with the entries that it should have.
func agrees(t *testing.T, what string, s *tree, want map[string]*Entry) {
	t.Helper()
	got := map[string]*Entry{}
	s.items.Scan(func(e *Entry) bool { got[e.Key] = e; return true })
	if !maps.Equal(got, want) {
		t.Fatalf("%s: has %d entries, or other ones; want %d", what, len(got), len(want))
	}
	for i, by := range s.by {
		clear(got)
		s.indexes[i].Scan(func(x indexed) bool {
			if x.value != by.value(x.entry.Object) {
				t.Fatalf("%s: %s is indexed at %s", what, x.entry.Key, x.value)
			}
			got[x.entry.Key] = x.entry
			return true
		})
		if s.indexes[i].Len() != len(want) || !maps.Equal(got, want) {
			t.Fatalf("%s: index %s has %d entries, or other ones; want %d", what, by.field, s.indexes[i].Len(), len(want))
		}
	}
}

// TestIndexedStore: whatever is put and removed, indexes and sums are those of the entries that are there.
func TestIndexedStore(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		s, want := newIndexedStore(byNode, true), map[string]*Entry{}
		for revision := range int64(100) {
			e := randomPod(r, revision)
			if prev := want[e.Key]; r.IntN(3) > 0 {
				if got := s.put(e); got != prev {
					t.Fatalf("seed %d: put of %s returns %v, want %v", seed, e.Key, got, prev)
				}
				want[e.Key] = e
			} else {
				if got := s.remove(e.Key); got != prev {
					t.Fatalf("seed %d: remove of %s returns %v, want %v", seed, e.Key, got, prev)
				}
				delete(want, e.Key)
			}
			agrees(t, fmt.Sprintf("seed %d, step %d", seed, revision), &s.tree, want)
			var bytes int64
			versions := map[schema.GroupVersion]int{}
			for _, e := range want {
				bytes += int64(e.size)
				versions[e.Object.GetObjectKind().GroupVersionKind().GroupVersion()]++
			}
			if s.bytes != bytes {
				t.Fatalf("seed %d, step %d: %d bytes, want %d", seed, revision, s.bytes, bytes)
			}
			for _, name := range []string{"v0", "v1"} {
				gv := schema.GroupVersion{Group: "example.com", Version: name}
				if s.allIn(gv) != (versions[gv] == len(want)) {
					t.Fatalf("seed %d, step %d: all in %s: %t", seed, revision, gv, s.allIn(gv))
				}
			}
		}
	}
}

// TestSnapshotter: a state that is had for a revision is the one that there was then; the present one always is.
func TestSnapshotter(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := snapshotter{indexedStore: newIndexedStore(byNode, false)}
		s.replace(1)
		now := time.Unix(0, 0)
		state, past := map[string]*Entry{}, map[int64]map[string]*Entry{1: {}}
		revision := int64(1)
		for step := range 150 {
			now = now.Add(time.Second)
			switch r.IntN(5) {
			case 0:
				s.keep(s.now(), now)
			case 1:
				if r.IntN(4) > 0 {
					continue
				}
				// The store went back: what was known of later and earlier revisions was of another history.
				revision = 1 + r.Int64N(revision)
				s.replace(revision)
				clear(state)
				past = map[int64]map[string]*Entry{revision: {}}
			default: // revisions of other resources lie between those of this one
				for range r.IntN(3) {
					revision++
					past[revision] = maps.Clone(state)
				}
				revision++
				if e := randomPod(r, revision); r.IntN(3) > 0 {
					s.put(e)
					state[e.Key] = e
				} else {
					s.remove(e.Key)
					delete(state, e.Key)
				}
				s.changed(revision)
				past[revision] = maps.Clone(state)
			}
			when := fmt.Sprintf("seed %d, step %d", seed, step)
			if got := s.at(revision, revision); got == nil {
				t.Fatalf("%s: no present state", when)
			}
			if got := s.at(revision+1, revision); got != nil {
				t.Fatalf("%s: has a state that is yet to come", when)
			}
			for at := range revision + 1 {
				got := s.at(at, revision)
				if got == nil {
					continue
				}
				want, ok := past[at]
				if !ok {
					t.Fatalf("%s: has revision %d of another history", when, at)
				}
				agrees(t, fmt.Sprintf("%s: revision %d", when, at), &got.tree, want)
			}
		}
	}
}

// TestKeptSnapshots: a state is kept while lists may go on in it: the newest few, for a while.
func TestKeptSnapshots(t *testing.T) {
	s := snapshotter{indexedStore: newIndexedStore(byNode, false)}
	s.replace(1)
	start := time.Unix(0, 0)
	for i := range int64(keptSnapshots + 1) {
		s.keep(s.now(), start.Add(time.Duration(i)*time.Second))
		s.changed(i + 2)
	}
	had := func() (revisions []int64) {
		for revision := range s.last {
			if s.at(revision, s.last) != nil {
				revisions = append(revisions, revision)
			}
		}
		return revisions
	}
	if got, want := had(), []int64{2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	s.forget(start.Add(keptTime + 2*time.Second + 1))
	if got, want := had(), []int64{4, 5}; !slices.Equal(got, want) {
		t.Errorf("after a while %v, want %v", got, want)
	}
	if s.dropSnapshots(); len(had()) > 0 {
		t.Errorf("after all were dropped %v", had())
	}
}
