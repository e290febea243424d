package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/source"
	"quintet.dev/quintet/components/kubelet/static"
)

// Mirrors is handed the mirror pods of the node: nothing is run for them.
type Mirrors interface {
	Seen(mirror *v1.Pod)
	Left(mirror *v1.Pod)
}

// Follow hands the pods that are bound to the node to m, and mirror pods to mirrors, until ctx ends. manifests is
// closed once m has the static pods: what the engine holds besides is not left over before.
func Follow(ctx context.Context, bound source.Source[*v1.Pod], m *Manager, mirrors Mirrors,
	manifests <-chan struct{}) {
	synced := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, wait := range []<-chan struct{}{synced, manifests} {
			select {
			case <-wait:
			case <-ctx.Done():
				return
			}
		}
		m.Synced()
	}()
	bound(ctx, source.Handler[*v1.Pod]{
		Set: func(pod *v1.Pod) {
			if static.IsMirror(pod) {
				mirrors.Seen(pod)
			} else {
				m.Set(pod)
			}
		},
		Gone: func(pod *v1.Pod) {
			if static.IsMirror(pod) {
				mirrors.Left(pod)
			} else {
				m.Gone(pod)
			}
		},
		Synced: func() { close(synced) },
	})
	<-done
}
