package apiserver_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A server that keeps nothing comes back with an empty store. A watch that goes on from a version of the former life must
// hear that this is gone, or its client would wait for ever.
func TestWatchFromAFormerLifeIsTold(t *testing.T) {
	first := start(t)
	made, err := first.client(t).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.stop()
	second := start(t).client(t)
	w, err := second.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	if err == nil {
		defer w.Stop()
		select {
		case event := <-w.ResultChan():
			if event.Type != watch.Error {
				t.Fatalf("got %s %v", event.Type, event.Object)
			}
			err = apierrors.FromObject(event.Object)
		case <-time.After(20 * time.Second):
			t.Fatal("the watch waits")
		}
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("want 410, got %v", err)
	}
}
