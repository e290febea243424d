package checks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

// Event is what a watch delivered.
type Event struct {
	Type    watch.EventType
	UID     types.UID
	Name    string // NAMESPACE/NAME, or NAME
	Version int64
	Value   string // of the content, if that is compared
}

// EventOf is the event as it is checked, without a value.
func EventOf(kind watch.EventType, obj metav1.Object) (Event, error) {
	version, err := versionOf(obj)
	return Event{Type: kind, UID: obj.GetUID(), Name: name(obj), Version: version}, err
}

// Stretch is what a watcher received without a gap: what a list had, and the events since.
type Stretch struct {
	From   int64            // the resource version of the list
	Listed map[string]Event // by Name, of type ADDED; nil if there was no list
	Events []Event          // without bookmarks
}

// Order checks the events of a stretch: each is later than the one before, an object is added before it is modified or
// deleted, and only once.
func (s Stretch) Order() error {
	last, there := s.From, map[string]bool{}
	for name := range s.Listed {
		there[name] = true
	}
	for i, e := range s.Events {
		switch {
		case e.Version <= last:
			return fmt.Errorf("event %d, %s of %s at %d, comes after one at %d", i, e.Type, e.Name, e.Version, last)
		case e.Type == watch.Added && there[e.Name]:
			return fmt.Errorf("event %d: %s is added again at %d", i, e.Name, e.Version)
		case e.Type != watch.Added && !there[e.Name] && s.Listed != nil:
			return fmt.Errorf("event %d: %s is %s at %d and was not there", i, e.Name, e.Type, e.Version)
		}
		last, there[e.Name] = e.Version, e.Type != watch.Deleted
	}
	return nil
}

// Complete checks that a stretch lists what a reference had at that version, and has all events of the reference since:
// a watcher that no fault disturbed and that began earlier, or what the store tells. The stretch may end earlier.
func (s Stretch) Complete(reference Stretch) error {
	if s.From < reference.From {
		return fmt.Errorf("the watcher began at %d, the reference at %d", s.From, reference.From)
	}
	next := 0
	for next < len(reference.Events) && reference.Events[next].Version <= s.From {
		next++
	}
	if s.Listed != nil {
		if err := s.compareList(reference.at(next)); err != nil {
			return err
		}
	}
	since := reference.Events[next:]
	for i, e := range s.Events {
		if i == len(since) {
			return fmt.Errorf("event %d since %d, %s of %s at %d, never happened", i, s.From, e.Type, e.Name, e.Version)
		}
		if e != since[i] {
			return fmt.Errorf("event %d since %d is %+v, and should be %+v", i, s.From, e, since[i])
		}
	}
	return nil
}

// at is what is there after a number of events.
func (s Stretch) at(events int) map[string]Event {
	out := map[string]Event{}
	maps.Copy(out, s.Listed)
	for _, e := range s.Events[:events] {
		if e.Type == watch.Deleted {
			delete(out, e.Name)
			continue
		}
		e.Type = watch.Added
		out[e.Name] = e
	}
	return out
}

func (s Stretch) compareList(want map[string]Event) error {
	if len(s.Listed) != len(want) {
		return fmt.Errorf("the list at %d has %d objects, and should have %d", s.From, len(s.Listed), len(want))
	}
	for name, e := range want {
		if s.Listed[name] != e {
			return fmt.Errorf("the list at %d has %+v, and should have %+v", s.From, s.Listed[name], e)
		}
	}
	return nil
}

// Watcher watches as clients do: it goes on from its last resource version when a watch ends, and lists again when
// that is too old.
type Watcher struct {
	// Clients are those of the resource, asked in turn: one for each API server, say.
	Clients []dynamic.ResourceInterface
	// Value is the content that is compared; nil compares none.
	Value func(*unstructured.Unstructured) string
	// Last is how long a watch lasts at most, in whole seconds; 0 is as the server has it. Short ones resume often.
	Last time.Duration

	stretches []Stretch
	last      int64
	resumes   int
}

const (
	listTimeout = 3 * time.Second
	retryAfter  = 50 * time.Millisecond
)

// Run watches until ctx ends. What the watcher saw is read after that.
func (w *Watcher) Run(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		client := w.Clients[turn%len(w.Clients)]
		if w.last == 0 && !w.list(ctx, client) {
			pause(ctx, retryAfter)
			continue
		}
		if !w.watch(ctx, client) {
			w.last = 0
		}
	}
}

// Stretches are what the watcher received: a stretch for each list.
func (w *Watcher) Stretches() []Stretch { return w.stretches }

// LastVersion is the last resource version of which the watcher was told, by an event or a bookmark.
func (w *Watcher) LastVersion() int64 { return w.last }

// Resumes is how many watches there were.
func (w *Watcher) Resumes() int { return w.resumes }

// Order checks the order of events (Stretch.Order).
func (w *Watcher) Order() error {
	for _, s := range w.stretches {
		if err := s.Order(); err != nil {
			return err
		}
	}
	return nil
}

// Complete checks that nothing is missing (Stretch.Complete).
func (w *Watcher) Complete(reference Stretch) error {
	for _, s := range w.stretches {
		if err := s.Complete(reference); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watcher) list(ctx context.Context, client dynamic.ResourceInterface) bool {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	from, err := versionOf(&metav1.ObjectMeta{Name: "a list", ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return false
	}
	listed := map[string]Event{}
	for i := range list.Items {
		e := w.event(watch.Added, &list.Items[i])
		listed[e.Name] = e
	}
	w.last = from
	w.stretches = append(w.stretches, Stretch{From: from, Listed: listed})
	return true
}

// watch returns false if the version is too old.
func (w *Watcher) watch(ctx context.Context, client dynamic.ResourceInterface) bool {
	options := metav1.ListOptions{ResourceVersion: strconv.FormatInt(w.last, 10), AllowWatchBookmarks: true}
	if w.Last > 0 {
		options.TimeoutSeconds = ptr.To(int64(w.Last / time.Second))
	}
	stream, err := client.Watch(ctx, options)
	if err != nil {
		pause(ctx, retryAfter)
		return !expired(err)
	}
	defer stream.Stop()
	w.resumes++
	now := &w.stretches[len(w.stretches)-1]
	for e := range stream.ResultChan() {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if e.Type == watch.Error || !ok {
			return !expired(errorOf(e))
		}
		told := w.event(e.Type, obj)
		w.last = told.Version
		if e.Type != watch.Bookmark {
			now.Events = append(now.Events, told)
		}
	}
	return true
}

func (w *Watcher) event(kind watch.EventType, obj *unstructured.Unstructured) Event {
	e, _ := EventOf(kind, obj) // a version that is no number is 0, which is out of order
	if w.Value != nil && kind != watch.Bookmark {
		e.Value = w.Value(obj)
	}
	return e
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// WatchOrder watches a resource until ctx ends, through a client that may be disturbed and a reference that is not, and
// tells the first event that the client missed, or was told twice, out of order or wrongly.
func WatchOrder(ctx context.Context, client, reference dynamic.ResourceInterface) error {
	undisturbed := &Watcher{Clients: []dynamic.ResourceInterface{reference}}
	for !undisturbed.list(ctx, reference) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause(ctx, retryAfter)
	}
	disturbed := &Watcher{Clients: []dynamic.ResourceInterface{client}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		disturbed.Run(ctx)
	}()
	undisturbed.Run(ctx)
	<-ended
	if len(undisturbed.stretches) != 1 {
		return fmt.Errorf("the reference was disturbed: it listed %d times", len(undisturbed.stretches))
	}
	return cmp.Or(disturbed.Order(), disturbed.completeSoFar(undisturbed))
}

// completeSoFar compares with a reference that ended at the same time, and may have been told less of the end.
func (w *Watcher) completeSoFar(reference *Watcher) error {
	for _, s := range w.stretches {
		if s.From > reference.last {
			continue
		}
		s.Events = slices.DeleteFunc(slices.Clone(s.Events), func(e Event) bool { return e.Version > reference.last })
		if err := s.Complete(reference.stretches[0]); err != nil {
			return err
		}
	}
	return nil
}
