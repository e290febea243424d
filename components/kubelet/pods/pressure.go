package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/eviction"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/static"
	"quintet.dev/quintet/components/kubelet/status"
)

// Active returns the pods that were admitted and have not ended. They are not to be changed.
func (m *Manager) Active() []*v1.Pod { return m.admission.others("") }

// Evict ends a pod, because the node lacks something, within grace.
func (m *Manager) Evict(pod *v1.Pod, message string, grace time.Duration) {
	m.post(pod.UID, func(e *events) {
		e.evict = &rejection{reason: evicted, message: message, within: grace, disrupted: true}
	})
}

// Terminate ends a pod, because the machine shuts down, within grace.
func (m *Manager) Terminate(pod *v1.Pod, grace time.Duration) {
	m.post(pod.UID, func(e *events) {
		e.evict = &rejection{reason: "Terminated", within: max(grace, time.Second), disrupted: true, silent: true,
			message: "Pod was terminated in response to imminent node shutdown."}
	})
}

// Ended tells that nothing of the pod runs any more, and that the API server knows so of a pod that it has.
func (m *Manager) Ended(uid types.UID) bool {
	m.mu.Lock()
	w := m.workers[uid]
	m.mu.Unlock()
	if w == nil {
		return true
	}
	known := w.published.Load()
	return known.status != nil && ended(known.status.Phase) && (static.Is(known.pod) || ended(known.pod.Status.Phase))
}

// Usage measures the memory that a pod's containers work with, and the space that it takes on the node's disk.
func (m *Manager) Usage(ctx context.Context, pod *v1.Pod) (*eviction.Usage, error) {
	usage := &eviction.Usage{Memory: map[string]int64{}, Containers: map[string]int64{}}
	if m.Volumes != nil {
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if v.ConfigMap == nil && (v.EmptyDir == nil || v.EmptyDir.Medium != v1.StorageMediumDefault) {
				continue
			}
			used, err := m.Volumes.Used(pod.UID, v)
			if err != nil {
				return nil, err
			}
			usage.Disk += used
		}
	}
	observed, err := m.Engine.Pod(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	for i := range observed.Containers {
		if err := m.measure(ctx, &observed.Containers[i], usage); err != nil && !errors.Is(err, runtime.ErrNotFound) {
			return nil, err
		}
	}
	return usage, nil
}

// measure adds what a container takes.
func (m *Manager) measure(ctx context.Context, c *runtime.Container, usage *eviction.Usage) error {
	if disks, able := m.Engine.(runtime.Disks); able {
		disk, err := disks.Disk(ctx, c.ID)
		if err != nil {
			return err
		}
		usage.Containers[c.Name] += disk.Written + disk.Logs
		usage.Disk += disk.Written + disk.Logs
	}
	if meter, able := m.Engine.(runtime.Statistics); able && c.State == runtime.Running {
		now, err := meter.Stats(ctx, c.ID)
		if err != nil {
			return err
		}
		usage.Memory[c.Name] = int64(now.WorkingSetBytes)
	}
	return nil
}

// refusePressure returns why a pod is not admitted while the node has conditions, nil if it is. A lack of memory alone
// keeps only pods out that request none and don't tolerate it.
func refusePressure(pod *v1.Pod, conditions []v1.NodeConditionType) *rejection {
	if len(conditions) == 0 || spec.Critical(pod) {
		return nil
	}
	if len(conditions) == 1 && conditions[0] == v1.NodeMemoryPressure {
		taint := v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
		if status.QOS(pod) != v1.PodQOSBestEffort ||
			corev1helper.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &taint, true) {
			return nil
		}
	}
	return &rejection{reason: evicted, message: fmt.Sprintf("The node had condition: %v. ", conditions), never: true}
}
