package score

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Recorder watches one namespace from Record until Stop.
type Recorder struct {
	started time.Time
	client  string // the field manager of the flow's own client
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu    sync.Mutex
	notes []Entry
	seen  map[string]metav1.Object // last version by kind and name
}

type watchFunc func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)

// Record starts to record what happens in namespace. manager is the field manager that the caller's own writes carry,
// and is shown as "client". It returns once all watches are established, so that nothing after it is missed.
func Record(ctx context.Context, client kubernetes.Interface, namespace, manager string) (*Recorder, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &Recorder{started: time.Now(), client: manager, cancel: cancel, seen: map[string]metav1.Object{}}
	for _, open := range []watchFunc{
		client.AppsV1().Deployments(namespace).Watch,
		client.AppsV1().ReplicaSets(namespace).Watch,
		client.CoreV1().Pods(namespace).Watch,
		client.CoreV1().Events(namespace).Watch,
	} {
		w, err := open(ctx, metav1.ListOptions{})
		if err != nil {
			r.Stop()
			return nil, fmt.Errorf("record %s: %w", namespace, err)
		}
		stop := context.AfterFunc(ctx, w.Stop) // a watch need not end with its context
		r.wg.Go(func() {
			defer stop()
			r.follow(w)
		})
	}
	return r, nil
}

// Stop ends the recording and returns the score, notes in the order of time.
func (r *Recorder) Stop() *Timeline {
	r.cancel()
	r.wg.Wait()
	slices.SortStableFunc(r.notes, func(a, b Entry) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	s := &Timeline{Started: r.started, Entries: r.notes}
	for _, n := range r.notes {
		if !slices.Contains(s.Actors, n.Actor) {
			s.Actors = append(s.Actors, n.Actor)
		}
	}
	return s
}

func (r *Recorder) follow(w watch.Interface) {
	for event := range w.ResultChan() {
		object, ok := event.Object.(metav1.Object)
		if !ok || event.Type == watch.Bookmark {
			continue
		}
		r.see(event.Type, event.Object, object, time.Since(r.started))
	}
}

func (r *Recorder) see(kind watch.EventType, typed runtime.Object, object metav1.Object, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := label(typed, object)
	before := r.seen[name]
	r.seen[name] = object
	for _, n := range describe(kind, before, typed) {
		n.At = float64(at.Microseconds()) / 1000
		n.Object = subject(name, typed)
		if n.Actor == "" {
			n.Actor = writer(before, object)
		}
		if n.Actor == r.client {
			n.Actor = "client"
		}
		r.notes = append(r.notes, n)
	}
}

func label(typed runtime.Object, object metav1.Object) string {
	switch o := typed.(type) {
	case *corev1.Pod:
		return "Pod " + o.Name
	case *appsv1.ReplicaSet:
		return "ReplicaSet " + o.Name
	case *appsv1.Deployment:
		return "Deployment " + o.Name
	case *corev1.Event:
		return "Event " + o.Name
	}
	return object.GetName()
}

// subject is what a note is about: an event is about the object that it names.
func subject(name string, typed runtime.Object) string {
	if e, ok := typed.(*corev1.Event); ok {
		return e.InvolvedObject.Kind + " " + e.InvolvedObject.Name
	}
	return name
}

// writer finds the field manager whose entry is new or changed between two versions of an object.
func writer(before, after metav1.Object) string {
	var old []metav1.ManagedFieldsEntry
	if before != nil {
		old = before.GetManagedFields()
	}
	for _, entry := range after.GetManagedFields() {
		same := func(o metav1.ManagedFieldsEntry) bool { return equality.Semantic.DeepEqual(o, entry) }
		if !slices.ContainsFunc(old, same) {
			return entry.Manager
		}
	}
	return "kube-apiserver" // it alone writes without a field manager
}
