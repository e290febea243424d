package api

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

// next returns the next event of w and fails the case when none comes soon.
func next(t *suite.T, w watch.Interface) watch.Event {
	select {
	case event, open := <-w.ResultChan():
		t.Expect(open).To(BeTrue(), "the watch ended")
		return event
	case <-time.After(10 * time.Second):
		t.Expect("an event").To(Equal("none within 10 s"))
		return watch.Event{}
	}
}

func seen(e watch.Event) string {
	if m, ok := e.Object.(*corev1.ConfigMap); ok {
		return fmt.Sprintf("%s %s %s", e.Type, m.Name, m.Data["key"])
	}
	return fmt.Sprintf("%s %T", e.Type, e.Object)
}

func watchResume(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	t.Must(err, "list")
	write := func(name, value string) {
		m := configMap(name, nil)
		m.Data["key"] = value
		_, err := maps.Create(ctx, m, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		}
		t.Must(err, "write %s", name)
	}
	write("a", "1")
	w, err := maps.Watch(ctx,
		metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name!=kube-root-ca.crt"})
	t.Must(err, "watch")
	write("b", "1")
	first := next(t, w)
	t.Expect(seen(first)).To(Equal("ADDED a 1"))
	w.Stop()

	write("a", "2")
	t.Must(maps.Delete(ctx, "b", metav1.DeleteOptions{}), "delete")
	write("c", "1")
	w, err = maps.Watch(ctx, metav1.ListOptions{ResourceVersion: first.Object.(*corev1.ConfigMap).ResourceVersion,
		FieldSelector: "metadata.name!=kube-root-ca.crt"})
	t.Must(err, "resume the watch")
	defer w.Stop()
	var got []string
	for range 4 {
		got = append(got, seen(next(t, w)))
	}
	t.Expect(got).To(Equal([]string{"ADDED b 1", "MODIFIED a 2", "DELETED b 1", "ADDED c 1"}))
}

func watchSelector(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	t.Must(err, "list")
	w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "tier=front"})
	t.Must(err, "watch")
	defer w.Stop()
	label := func(value string) {
		_, err := maps.Patch(ctx, "one", "application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"tier":"`+value+`"}}}`), metav1.PatchOptions{})
		t.Must(err, "label")
	}
	_, err = maps.Create(ctx, configMap("one", map[string]string{"tier": "back"}), metav1.CreateOptions{})
	t.Must(err, "create")
	label("front")
	label("back")
	label("front")
	t.Must(maps.Delete(ctx, "one", metav1.DeleteOptions{}), "delete")
	for _, want := range []watch.EventType{watch.Added, watch.Deleted, watch.Added, watch.Deleted} {
		event := next(t, w)
		t.Expect(event.Type).To(Equal(want))
	}
}

func watchList(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	for _, name := range []string{"a", "b"} {
		_, err := maps.Create(ctx, configMap(name, map[string]string{"app": "list"}), metav1.CreateOptions{})
		t.Must(err, "create")
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{
		LabelSelector: "app=list", AllowWatchBookmarks: true, SendInitialEvents: ptr.To(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	t.Must(err, "watch")
	defer w.Stop()
	t.Expect([]string{seen(next(t, w)), seen(next(t, w))}).To(ConsistOf("ADDED a value", "ADDED b value"))
	mark := next(t, w)
	t.Expect(mark.Type).To(Equal(watch.Bookmark))
	object := mark.Object.(*corev1.ConfigMap)
	t.Expect(object.Annotations).To(HaveKeyWithValue(metav1.InitialEventsAnnotationKey, "true"))
	t.Expect(object.ResourceVersion).NotTo(BeEmpty())
	t.Must(maps.Delete(ctx, "a", metav1.DeleteOptions{}), "delete")
	for {
		if event := next(t, w); event.Type != watch.Bookmark {
			t.Expect(seen(event)).To(Equal("DELETED a value"))
			return
		}
	}
}

func watchTooOld(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	_, err := maps.Create(ctx, configMap("one", nil), metav1.CreateOptions{})
	t.Must(err, "create")
	w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
	if err == nil {
		defer w.Stop()
		event := next(t, w)
		if event.Type != watch.Error {
			// A young cluster may still keep its first version: then nothing since may be missing.
			t.Expect(event.Type).To(Equal(watch.Added))
			return
		}
		err = apierrors.FromObject(event.Object)
	}
	t.Expect(apierrors.IsResourceExpired(err) || apierrors.IsGone(err)).To(BeTrue(), "want 410 Gone, got %v", err)
}
