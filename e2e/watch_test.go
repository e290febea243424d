package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// written labels the ConfigMaps of watchWrites.
var written = labels.Set{"app": "written"}

// watchWrites creates ConfigMaps, beside a watch of them that resumes where its connection ended. The function that it
// returns ends that, and fails the test unless the watch showed each of them once, in order.
func (w *world) watchWrites() func() {
	w.t.Helper()
	maps := w.client.CoreV1().ConfigMaps(space)
	list, err := maps.List(w.t.Context(), metav1.ListOptions{})
	w.must(err, "list ConfigMaps")
	watches := 0
	watcher, err := watchtools.NewRetryWatcherWithContext(w.t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			watches++
			o.LabelSelector = written.String()
			return maps.Watch(ctx, o)
		},
	})
	w.must(err, "watch ConfigMaps")
	seen, names := make(chan []string, 1), make(chan []string, 1)
	go func() { seen <- eventNames(watcher.ResultChan()) }()
	ctx, stopWrites := context.WithCancel(w.t.Context())
	go func() { names <- w.writeUntil(ctx) }()
	w.t.Cleanup(stopWrites)
	return func() {
		w.t.Helper()
		stopWrites()
		want := <-names
		w.Eventually(func() error { // the last event comes a moment after the last write
			_, err := maps.Create(w.t.Context(), writtenMap(lastWrite), metav1.CreateOptions{})
			return ignoreExists(err)
		}).Should(Succeed(), "create the last ConfigMap")
		select {
		case got := <-seen:
			w.Expect(got).To(Equal(want), "what the watch showed of what was written")
		case <-time.After(waitTimeout):
			w.t.Fatal("the watch does not show the last ConfigMap")
		}
		watcher.Stop()
		<-watcher.Done()
		w.Expect(len(want)).To(BeNumerically(">", 10), "ConfigMaps")
		w.Expect(watches).To(BeNumerically(">", 1), "watches: one whose server is killed is followed by another")
	}
}

// lastWrite is the name of the ConfigMap that ends eventNames.
const lastWrite = "written-last"

// eventNames collects what events are about until the last ConfigMap comes, or the watch ends.
func eventNames(events <-chan watch.Event) []string {
	var names []string
	for event := range events {
		object, ok := event.Object.(*corev1.ConfigMap)
		switch {
		case !ok || event.Type != watch.Added:
			names = append(names, fmt.Sprintf("%s: %v", event.Type, event.Object))
		case object.Name == lastWrite:
			return names
		default:
			names = append(names, object.Name)
		}
	}
	return append(names, "end of the watch")
}

// writeUntil creates one ConfigMap after another until ctx ends, and returns their names. It repeats a request that
// fails: its server may have been killed, before or after the write.
func (w *world) writeUntil(ctx context.Context) []string {
	var names []string
	for ctx.Err() == nil {
		name := fmt.Sprintf("written-%d", len(names))
		_, err := w.client.CoreV1().ConfigMaps(space).Create(context.WithoutCancel(ctx), writtenMap(name),
			metav1.CreateOptions{})
		if ignoreExists(err) == nil {
			names = append(names, name)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return names
}

func writtenMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: written}}
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
