package robustness

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// event is one change of one object.
type event struct {
	version int64
	kind    watch.EventType
	key     string
	value   string
}

// truth is what happened to the ConfigMaps of the namespace, as etcd itself tells it.
type truth struct {
	mu      sync.Mutex
	events  []event
	reached int64
}

const prefix = "/registry/configmaps/" + namespace + "/"

// follow returns when ctx ends. etcd must not be compacted beyond reached.
func (h *truth) follow(ctx context.Context, etcd *clientv3.Client, from int64) error {
	for batch := range etcd.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(),
		clientv3.WithRev(from), clientv3.WithProgressNotify(), clientv3.WithPrevKV()) {
		if err := batch.Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("following etcd: %w", err)
		}
		h.mu.Lock()
		for _, e := range batch.Events {
			now := event{version: e.Kv.ModRevision, key: strings.TrimPrefix(string(e.Kv.Key), prefix),
				kind: watch.Modified}
			content := e.Kv.Value
			switch {
			case e.Type == clientv3.EventTypeDelete:
				now.kind, content = watch.Deleted, e.PrevKv.Value
			case e.IsCreate():
				now.kind = watch.Added
			}
			obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
			if err != nil {
				h.mu.Unlock()
				return fmt.Errorf("%s in etcd: %w", e.Kv.Key, err)
			}
			now.value = obj.(*corev1.ConfigMap).Data[dataKey]
			h.events = append(h.events, now)
		}
		h.reached = max(h.reached, batch.Header.Revision)
		h.mu.Unlock()
	}
	return nil
}

// stretch holds the events of a watcher between a start and an end, with no list in between.
type stretch struct {
	from   int64            // it received everything after
	state  map[string]event // that a list found there, nil if the watcher went on from its last version
	events []event
}

// watcher watches as clients do: it resumes from its last resourceVersion when a watch ends, and lists again when that
// is too old.
type watcher struct {
	objects   []typedv1.ConfigMapInterface
	stretches []stretch
	last      int64
	resumes   int
	lists     int
}

func (w *watcher) run(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		objects := w.objects[turn%len(w.objects)]
		if w.last == 0 && !w.list(ctx, objects) {
			wait(ctx, 50*time.Millisecond)
			continue
		}
		if !w.watch(ctx, objects) {
			w.last = 0
		}
	}
}

func (w *watcher) list(ctx context.Context, objects typedv1.ConfigMapInterface) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	w.last, _ = strconv.ParseInt(list.ResourceVersion, 10, 64)
	found := map[string]event{}
	for i := range list.Items {
		found[list.Items[i].Name] = eventOf(watch.Added, &list.Items[i])
	}
	w.stretches = append(w.stretches, stretch{from: w.last, state: found})
	w.lists++
	return true
}

// watch returns false if its version is too old.
func (w *watcher) watch(ctx context.Context, objects typedv1.ConfigMapInterface) bool {
	// Short ones, so that watches are resumed often.
	stream, err := objects.Watch(ctx, metav1.ListOptions{ResourceVersion: strconv.FormatInt(w.last, 10),
		AllowWatchBookmarks: true, TimeoutSeconds: new(int64(2))})
	if err != nil {
		wait(ctx, 50*time.Millisecond)
		return true
	}
	defer stream.Stop()
	w.resumes++
	now := &w.stretches[len(w.stretches)-1]
	for e := range stream.ResultChan() {
		switch obj := e.Object.(type) {
		case *corev1.ConfigMap:
			told := eventOf(e.Type, obj)
			w.last = told.version
			if e.Type != watch.Bookmark {
				now.events = append(now.events, told)
			}
		case *metav1.Status:
			return obj.Reason != metav1.StatusReasonExpired && obj.Reason != metav1.StatusReasonGone
		}
	}
	return true
}

func eventOf(kind watch.EventType, obj *corev1.ConfigMap) event {
	version, _ := strconv.ParseInt(obj.ResourceVersion, 10, 64)
	return event{version: version, kind: kind, key: obj.Name, value: obj.Data[dataKey]}
}

// verify compares the events of a watcher with the history: nothing lost, duplicated or out of order.
func (h *truth) verify(w *watcher) error {
	for _, s := range w.stretches {
		if s.state != nil {
			if err := h.verifyState(s); err != nil {
				return err
			}
		}
		next := 0
		for next < len(h.events) && h.events[next].version <= s.from {
			next++
		}
		for i, told := range s.events {
			if next == len(h.events) || h.events[next] != told {
				return fmt.Errorf("event %d after %d is %+v; etcd has %+v", i, s.from, told,
					h.events[min(next, len(h.events)-1)])
			}
			next++
		}
	}
	return nil
}

func (h *truth) verifyState(s stretch) error {
	state := map[string]event{}
	for _, e := range h.events {
		if e.version > s.from {
			break
		}
		if e.kind == watch.Deleted {
			delete(state, e.key)
		} else {
			e.kind = watch.Added
			state[e.key] = e
		}
	}
	if len(state) != len(s.state) {
		return fmt.Errorf("the list at %d has %d objects, etcd has %d", s.from, len(s.state), len(state))
	}
	for key, want := range state {
		if s.state[key] != want {
			return fmt.Errorf("the list at %d has %+v, etcd has %+v", s.from, s.state[key], want)
		}
	}
	return nil
}
