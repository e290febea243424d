package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/kubelet/static"
)

// Mirrors is handed the mirror pods of the node: nothing is run for them.
type Mirrors interface {
	Seen(mirror *v1.Pod)
	Left(mirror *v1.Pod)
}

// Source follows the pods bound to node and hands them to m, and mirror pods to mirrors, until ctx ends. manifests is
// closed once m has the static pods: what the engine holds besides is not left over before.
func Source(ctx context.Context, client kubernetes.Interface, node string, m *Manager, mirrors Mirrors,
	manifests <-chan struct{}) {
	set := func(pod *v1.Pod) {
		if static.IsMirror(pod) {
			mirrors.Seen(pod)
		} else {
			m.Set(pod)
		}
	}
	gone := func(pod *v1.Pod) {
		if static.IsMirror(pod) {
			mirrors.Left(pod)
		} else {
			m.Gone(pod)
		}
	}
	selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
	all := client.CoreV1().Pods(metav1.NamespaceAll)
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = selector
				return all.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = selector
				return all.Watch(ctx, options)
			},
		}, client),
		ObjectType: &v1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { set(object.(*v1.Pod)) },
			UpdateFunc: func(_, object any) { set(object.(*v1.Pod)) },
			DeleteFunc: func(object any) {
				if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = unknown.Obj
				}
				if pod, ok := object.(*v1.Pod); ok {
					gone(pod)
				}
			},
		},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
			return
		}
		select {
		case <-manifests:
			m.Synced()
		case <-ctx.Done():
		}
	}()
	controller.RunWithContext(ctx)
	<-done
}
