package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// follower is a client that watches, leaves at any moment, and comes back with the last version that it was told.
type follower struct {
	*fixture
	options WatchOptions
	random  *rand.Rand
	version string
	known   map[string]string // versions by name
}

// take notes what is told. Nothing comes that was told before.
func (w *follower) take(events []Event) {
	for _, e := range events {
		version := e.Entry.Object.GetResourceVersion()
		before, now := asRevision(w, w.version), asRevision(w, version)
		name := e.Entry.Object.GetNamespace() + "/" + e.Entry.Object.GetName()
		_, has := w.known[name]
		switch {
		case now < before || now == before && e.Type != Bookmark:
			w.Errorf("%s of %d after %d", e.Type, now, before)
		case has != (e.Type == Modified || e.Type == Deleted) && e.Type != Bookmark:
			w.Errorf("%s of %s, which was known: %t", e.Type, name, has)
		}
		switch e.Type {
		case Added, Modified:
			w.known[name] = version
		case Deleted:
			delete(w.known, name)
		}
		w.version = version
	}
}

func asRevision(t testing.TB, version string) int64 {
	if version == "" {
		return 0
	}
	revision, err := parseRevision(version)
	if err != nil {
		t.Error(err)
	}
	return revision
}

// list starts over.
func (w *follower) list() {
	l, err := w.pods.List(w.ctx, ListOptions{Namespace: w.options.Namespace, Predicate: w.options.Predicate})
	if err != nil {
		w.Error(err)
		return
	}
	w.version, w.known = formatRevision(l.Revision), map[string]string{}
	for _, e := range l.Entries {
		w.known[e.Object.GetNamespace()+"/"+e.Object.GetName()] = e.Object.GetResourceVersion()
	}
}

// visit watches for a while, but waits for nothing longer than ctx lasts.
func (w *follower) visit(ctx context.Context) {
	o := w.options
	o.ResourceVersion, o.Bookmarks = w.version, true
	watcher, err := w.pods.Watch(w.ctx, o)
	if apierrors.IsResourceExpired(err) {
		w.list()
		return
	}
	if err != nil {
		w.Error(err)
		return
	}
	defer watcher.Close()
	for range 1 + w.random.IntN(8) {
		var events []Event
		if w.random.IntN(2) == 0 {
			events, err = watcher.bookmark()
		} else if events, err = watcher.Next(ctx); errors.Is(err, context.Canceled) {
			events, err = watcher.bookmark()
		}
		if err != nil {
			w.Error(err)
			return
		}
		w.take(events)
	}
}

// TestFollowersMissNothing: a client that watches, with any selector, and resumes from the last resource version of an
// event or a bookmark, ends up with the current state.
func TestFollowersMissNothing(t *testing.T) {
	const writers, followers, writes = 4, 3 * batchedFrom, 400
	f := start(t, memory.New(nil), Config{})
	var writing, following sync.WaitGroup
	written, end := context.WithCancel(f.ctx)
	defer end()
	for i := range writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range writes {
				f.scribble(random)
			}
		})
	}
	predicates := []Predicate{
		{}, {Field: fields.ParseSelectorOrDie("spec.nodeName=n1")},
		{Label: labels.SelectorFromSet(labels.Set{"app": "x"})},
		{Field: fields.ParseSelectorOrDie("metadata.name=p1")},
		{Field: fields.ParseSelectorOrDie("spec.nodeName!=n1,status.phase=Running")},
	}
	all := make([]*follower, followers)
	for i := range all {
		w := &follower{fixture: f, random: rand.New(rand.NewPCG(2, uint64(i))),
			options: WatchOptions{Namespace: []string{"", "a", "b"}[i/2%3]}}
		if i%2 == 0 { // the others share a large bucket
			w.options.Predicate = predicates[i/6%len(predicates)]
		} else {
			w.options.Namespace = ""
		}
		all[i] = w
		following.Go(func() {
			w.list()
			for written.Err() == nil {
				w.visit(written)
			}
		})
	}
	writing.Wait()
	end()
	following.Wait()
	for _, w := range all {
		now := &follower{fixture: f, options: w.options}
		now.list()
		w.visit(written)
		if !maps.Equal(w.known, now.known) {
			t.Errorf("%+v: knows %v, there is %v", w.options.Predicate, slices.Sorted(maps.Keys(w.known)),
				slices.Sorted(maps.Keys(now.known)))
		}
	}
}

// scribble makes, changes or removes a pod.
func (f *fixture) scribble(random *rand.Rand) {
	namespace, name := []string{"a", "b"}[random.IntN(2)], fmt.Sprint("p", random.IntN(5))
	key := f.pods.Key(namespace, name)
	var err error
	switch random.IntN(4) {
	case 0:
		_, err = f.pods.Delete(f.ctx, key, nil)
	case 1:
		p := pod(namespace, name, fmt.Sprint("n", random.IntN(3)))
		_, err = f.pods.Create(f.ctx, key, p, 0)
	default:
		app, node, phase := []string{"x", "y"}[random.IntN(2)], fmt.Sprint("n", random.IntN(3)),
			[]corev1.PodPhase{"Running", "Failed"}[random.IntN(2)]
		_, err = f.pods.Update(f.ctx, key, nil, func(current *Entry) (api.Object, error) {
			p := current.Object.(*corev1.Pod).DeepCopy()
			p.Labels, p.Spec.NodeName, p.Status.Phase = map[string]string{"app": app}, node, phase
			return p, nil
		})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		f.Error(err)
	}
}
