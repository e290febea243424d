package robustness

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRestored restores an older snapshot of etcd while the API servers run: they serve its state and nothing newer,
// and watches end, as no watch can continue from a revision that no longer exists.
func TestRestored(t *testing.T) {
	dir := t.TempDir()
	s := newSite(t, dir)
	server := s.client(t, 0).CoreV1().ConfigMaps(namespace)
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	if _, err := server.Create(t.Context(), named("early"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	all := func(do func(*program) error) {
		t.Helper()
		for _, m := range s.members {
			if err := do(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop := func(m *program) error { m.kill(); return nil }
	all(stop)
	all(func(m *program) error {
		return os.CopyFS(filepath.Join(dir, "backup", m.name), os.DirFS(filepath.Join(dir, m.name)))
	})
	all((*program).start)
	for i := range s.servers {
		s.await(t, i)
	}
	var last *corev1.ConfigMap
	for i := range 50 { // more than the servers write for themselves while they start again
		obj := soaked(i, 0)
		made, err := server.Create(t.Context(), obj, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		last = made
	}
	w, err := server.Watch(t.Context(), metav1.ListOptions{ResourceVersion: last.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()

	all(stop)
	all(func(m *program) error { return os.RemoveAll(filepath.Join(dir, m.name)) })
	all(func(m *program) error {
		return os.CopyFS(filepath.Join(dir, m.name), os.DirFS(filepath.Join(dir, "backup", m.name)))
	})
	all((*program).start)
	for i := range s.servers {
		s.await(t, i)
		objects := s.client(t, i).CoreV1().ConfigMaps(namespace)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			asking, cancel := context.WithTimeout(t.Context(), requestTimeout)
			list, err := objects.List(asking, metav1.ListOptions{})
			cancel()
			if err == nil {
				if len(list.Items) == 0 || list.Items[0].Name != "early" || len(list.Items) > 2 {
					// and the root certificate, perhaps
					t.Errorf("API server %d has %d objects", i, len(list.Items))
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("API server %d: %v", i, err)
			}
		}
	}
	if status, ok := (<-w.ResultChan()).Object.(*metav1.Status); !ok || status.Code != 410 {
		t.Errorf("the watch got %v", status)
	}
}
