package pods

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// ReclaimContainers removes the containers of pods that have ended, with their logs. What they came to is in the API.
func (m *Manager) ReclaimContainers(ctx context.Context) error {
	ended := m.endedPods()
	listed, err := m.Engine.Pods(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for i := range listed {
		pod := &listed[i]
		if !ended[pod.UID] || pod.AnyRunning() {
			continue
		}
		for _, id := range dead(pod) {
			err := m.Engine.Remove(ctx, id)
			if err == nil && m.Logs != nil {
				err = m.Logs.Remove(id)
			}
			if err != nil {
				failures = append(failures, err)
			}
		}
		m.Wake(pod.UID)
	}
	return utilerrors.NewAggregate(failures)
}

// endedPods are those that have ended as the API has it, too.
func (m *Manager) endedPods() map[types.UID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	uids := map[types.UID]bool{}
	for uid, w := range m.workers {
		if known := w.published.Load(); known != nil && !known.gone && ended(known.pod.Status.Phase) {
			uids[uid] = true
		}
	}
	return uids
}

// dead lists the containers of a pod that ended, then its sandboxes that did.
func dead(pod *runtime.Pod) []string {
	var ids []string
	for i := range pod.Containers {
		if pod.Containers[i].State == runtime.Exited {
			ids = append(ids, pod.Containers[i].ID)
		}
	}
	for i := range pod.Sandboxes {
		if pod.Sandboxes[i].State == runtime.Exited {
			ids = append(ids, pod.Sandboxes[i].ID)
		}
	}
	return ids
}
