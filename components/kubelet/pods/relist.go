package pods

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// follow wakes workers for the engine's events, and relists now and then and whenever the events were lost.
func (m *Manager) follow(ctx context.Context) {
	for ctx.Err() == nil {
		events, err := m.Engine.Events(ctx)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Events of the container engine can't be followed, will be retried")
		} else {
			m.relist(ctx)
			m.drain(ctx, events)
		}
		select {
		case <-ctx.Done():
		case <-m.Clock.After(time.Second):
		}
	}
}

func (m *Manager) drain(ctx context.Context, events <-chan types.UID) {
	ticker := m.Clock.NewTicker(m.Relist)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case uid, ok := <-events:
			if !ok {
				return
			}
			m.Wake(uid)
		case <-m.relistNow:
			m.relist(ctx)
		case <-ticker.C():
			m.relist(ctx)
		}
	}
}

// relist hands each worker what the engine has of its pod, and adopts pods that the API does not know, to end them.
func (m *Manager) relist(ctx context.Context) {
	m.mu.Lock()
	synced := m.synced // read before the list: a pod handed in later is not left over
	if m.unlisted.IsZero() {
		m.unlisted = m.Clock.Now()
	}
	m.mu.Unlock()
	began := m.Clock.Now()
	listed, err := m.Engine.Pods(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Containers can't be listed, will be retried")
		return
	}
	m.mu.Lock()
	m.unlisted = time.Time{}
	m.Metrics.Relisted(m.relisted, began, m.Clock.Now())
	m.relisted = began
	m.mu.Unlock()
	if m.HostPorts != nil {
		if err := m.HostPorts.Sync(ctx, listed); err != nil {
			klog.FromContext(ctx).Error(err, "Host ports can't be set, will be retried")
		}
	}
	found := make(map[types.UID]*runtime.Pod, len(listed))
	if m.Volumes != nil {
		uids, err := m.Volumes.Pods()
		if err != nil {
			klog.FromContext(ctx).Error(err, "Directories of pods can't be listed")
		}
		for _, uid := range uids {
			found[uid] = &runtime.Pod{UID: uid}
		}
	}
	for i := range listed {
		found[listed[i].UID] = &listed[i]
	}
	m.handOut(ctx, found, synced)
}

// handOut tells each worker what was found of its pod. Pods without worker are ended once all pods of the API are
// known.
func (m *Manager) handOut(ctx context.Context, found map[types.UID]*runtime.Pod, synced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, w := range m.workers {
		pod := found[uid]
		if pod == nil {
			pod = &runtime.Pod{UID: uid}
		}
		w.inbox.post(func(e *events) { e.listed = pod })
	}
	if !synced {
		return
	}
	for uid, pod := range found {
		if m.workers[uid] != nil {
			continue
		}
		klog.FromContext(ctx).Info("Ending a pod that the API does not know (any more)", "podUID", uid,
			"pod", klog.KRef(pod.Namespace, pod.Name))
		w := newWorker(m, orphan(uid, pod.Namespace, pod.Name))
		w.receive(events{gone: w.state.pod})
		w.publish()
		m.workers[uid] = w
		m.launch(w)
	}
}
