package apiserver_test

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A server that keeps nothing comes back with an empty store. A watch that goes on from a version of the former life
// must hear that this is gone, or its client would wait for ever.
func TestWatchFromAFormerLifeIsTold(t *testing.T) {
	first := start(t)
	made, err := first.client(t).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.stop()
	second := start(t).client(t)
	w, err := second.CoreV1().ConfigMaps("default").Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	if err != nil {
		t.Fatalf("a watch begins, and ends with an event: %v", err)
	}
	defer w.Stop()
	select {
	case event := <-w.ResultChan():
		status, ok := event.Object.(*metav1.Status)
		if event.Type != watch.Error || !ok || status.Code != http.StatusGone ||
			status.Reason != metav1.StatusReasonExpired {
			t.Fatalf("got %s %v", event.Type, event.Object)
		}
	case <-time.After(time.Minute):
		t.Fatal("the watch waits")
	}
	if event, open := <-w.ResultChan(); open {
		t.Errorf("then got %s %v", event.Type, event.Object)
	}
}
