package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// together is a store in which deletions of config maps wait until there are enough of them at a time.
type together struct {
	storage.Store
	mu      sync.Mutex
	missing int
	enough  chan struct{}
}

func (s *together) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	if strings.HasPrefix(key, "/registry/configmaps/default/") {
		s.mu.Lock()
		if s.missing--; s.missing == 0 {
			close(s.enough)
		}
		s.mu.Unlock()
		select {
		case <-s.enough:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return s.Store.Delete(ctx, key, expected)
}

// TestDeleteCollectionWorkers deletes several objects of a collection at a time if it may.
func TestDeleteCollectionWorkers(t *testing.T) {
	for workers, c := range map[int]struct {
		timeout time.Duration
		want    bool
	}{1: {time.Second, false}, 3: {time.Minute, true}} {
		store := &together{Store: memory.New(clock.RealClock{}), missing: 3, enough: make(chan struct{})}
		t.Cleanup(func() { _ = store.Close() })
		f := start(t, func(c *options.Config) { c.Storage, c.Store, c.DeleteCollectionWorkers = "", store, workers })
		client := f.client(t)
		for i := range 3 {
			create(t, client, configMap(fmt.Sprint("c", i), nil))
		}
		err := client.CoreV1().RESTClient().Delete().AbsPath("/api/v1/namespaces/default/configmaps").Timeout(
			c.timeout).Do(t.Context()).Error()
		if (err == nil) != c.want {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}

// TestNoCollector: without a garbage collector nothing waits for it.
func TestNoCollector(t *testing.T) {
	for off, finalizers := range map[bool][]string{false: {metav1.FinalizerDeleteDependents}, true: nil} {
		client := start(t, func(c *options.Config) { c.NoGarbageCollection = off }).client(t)
		create(t, client, configMap("a", nil))
		foreground := metav1.DeletePropagationForeground
		if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "a",
			metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
		left, err := client.CoreV1().ConfigMaps("default").List(t.Context(),
			metav1.ListOptions{FieldSelector: "metadata.name=a"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, cm := range left.Items {
			got = cm.Finalizers
		}
		if !slices.Equal(got, finalizers) {
			t.Errorf("off %v: left %v", off, left.Items)
		}
	}
}

// TestOnlyAdmission: plug-ins that are not named are off, also those that are on by default.
func TestOnlyAdmission(t *testing.T) {
	client := start(t, func(c *options.Config) { c.OnlyAdmission = []string{"AlwaysPullImages"} }).client(t)
	pod, err := client.CoreV1().Pods("nowhere").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
	}, metav1.CreateOptions{})
	if err != nil || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || len(pod.Spec.Tolerations) > 0 {
		t.Errorf("got %v, %v", pod, err)
	}
}

// TestLogFiles serves the machine's logs only when that is wanted.
func TestLogFiles(t *testing.T) {
	for on, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		client := start(t, func(c *options.Config) { c.LogFiles = on }).client(t)
		var got int
		client.Discovery().RESTClient().Get().AbsPath("/logs/").Do(t.Context()).StatusCode(&got)
		if got != want {
			t.Errorf("on %v: got %d", on, got)
		}
		client.Discovery().RESTClient().Get().AbsPath("/logs/" +
			strings.Repeat("x", 300)).Do(t.Context()).StatusCode(&got)
		if got != http.StatusNotFound {
			t.Errorf("on %v, a name that is too long: got %d", on, got)
		}
	}
}
