package apiserver

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestSelf: the server's parts can be its clients, and read its caches through informers.
func TestSelf(t *testing.T) {
	s, err := New(options.Config{Storage: options.StorageMemory, AuthorizationModes: []string{"RBAC"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	<-s.Ready()

	client, err := kubernetes.NewForConfig(s.Client())
	if err != nil {
		t.Fatal(err)
	}
	namespaces := s.registry.informers.Core().V1().Namespaces()
	namespaces.Informer()
	s.registry.informers.StartWithContext(ctx)
	w, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=made"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "made"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	event := <-w.ResultChan()
	if event.Type != watch.Added {
		t.Fatalf("event %v", event)
	}
	s.registry.informers.WaitForCacheSyncWithContext(ctx)
	stored, err := s.registry.Get(ctx, corev1.Resource("namespaces"), "", "made")
	if err != nil {
		t.Fatal(err)
	}
	for {
		got, err := namespaces.Lister().Get("made")
		if err == nil {
			if got != stored {
				t.Error("the informer has a copy")
			}
			break
		}
		if !apierrors.IsNotFound(err) || ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	w.Stop()
	for range w.ResultChan() { // ends, or the test does
	}
}
