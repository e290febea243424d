package consistency

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/internal/informer"
)

// TestRelist: an object that was written and deleted while the watch was lost is waited for no longer than until the
// next list.
func TestRelist(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	source.Add(pod("other")) // version 1
	pods := informer.New(source, &corev1.Pod{}, 0, nil)
	writes := New(runner.Env{}, "test", map[string]cache.SharedIndexInformer{Pods: pods})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); pods.RunWithContext(ctx) }()
	defer func() { cancel(); <-done; source.Shutdown() }()
	cache.WaitForCacheSync(ctx.Done(), pods.HasSynced)
	if err := writes.Seen("owner"); err != nil {
		t.Error(err)
	}
	source.AddDropWatch(pod("a")) // 2
	writes.Wrote("owner", "uid", Pods, "2")
	source.DeleteDropWatch(pod("a")) // 3
	source.ResetWatch()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := writes.Seen("owner")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the reflector is at %s: %v", pods.LastSyncResourceVersion(), err)
		}
	}
}
