package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
)

const (
	// evicted is the reason of pods that the node ends for what they take, or for what it lacks.
	evicted = "Evicted"
	// storagePeriod is how often the space that pods take on the node's disk is compared with their limits.
	storagePeriod = 10 * time.Second
	// evictionGrace is what a pod gets to end that took more than it may.
	evictionGrace = time.Second
)

// guardStorage evicts pods that take more space on the node's disk than they may, until ctx ends.
func (m *Manager) guardStorage(ctx context.Context) {
	disks, able := m.Engine.(runtime.Disks)
	if !able || m.Volumes == nil {
		return
	}
	ticker := m.Clock.NewTicker(storagePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		for _, pod := range m.admission.others("") {
			if !limitsStorage(pod) || spec.Critical(pod) {
				continue
			}
			message, err := m.exceeds(ctx, disks, pod)
			if err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Disk space of the pod can't be measured, will be retried", "pod",
					klog.KObj(pod))
			}
			if message != "" {
				m.post(pod.UID, func(e *events) { e.evict = &rejection{reason: evicted, message: message, within: evictionGrace} })
			}
		}
	}
}

// limitsStorage tells pods whose space has a limit: nothing is measured for the others.
func limitsStorage(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if dir := pod.Spec.Volumes[i].EmptyDir; dir != nil && dir.SizeLimit != nil && dir.SizeLimit.Sign() > 0 {
			return true
		}
	}
	_, limited := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})[v1.ResourceEphemeralStorage]
	return limited
}

// exceeds tells which of its limits a pod exceeds, "" if none: that of a volume, of all together, or of a container.
func (m *Manager) exceeds(ctx context.Context, disks runtime.Disks, pod *v1.Pod) (string, error) {
	var total int64
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil && v.ConfigMap == nil {
			continue
		}
		used, err := m.Volumes.Used(pod.UID, v)
		if err != nil {
			return "", err
		}
		if v.EmptyDir == nil || v.EmptyDir.Medium == v1.StorageMediumDefault {
			total += used
		}
		if v.EmptyDir == nil {
			continue
		}
		if limit := v.EmptyDir.SizeLimit; limit != nil && limit.Sign() > 0 && beyond(used, limit) {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, limit.String()), nil
		}
	}
	observed, err := m.Engine.Pod(ctx, pod.UID)
	if err != nil {
		return "", err
	}
	running := map[string]int64{}
	for i := range observed.Containers {
		c := &observed.Containers[i]
		usage, err := disks.Disk(ctx, c.ID)
		if errors.Is(err, runtime.ErrNotFound) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return "", err
		}
		total += usage.Logs
		if c.State == runtime.Running {
			total += usage.Written
			running[c.Name] = usage.Written + usage.Logs
		}
	}
	limit, limited := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})[v1.ResourceEphemeralStorage]
	if limited && beyond(total, &limit) {
		return fmt.Sprintf(
			"Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String()), nil
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if limit := c.Resources.Limits.StorageEphemeral(); !limit.IsZero() && beyond(running[c.Name], limit) {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String()),
				nil
		}
	}
	return "", nil
}

func beyond(used int64, limit *resource.Quantity) bool {
	return limit.CmpInt64(used) < 0
}
