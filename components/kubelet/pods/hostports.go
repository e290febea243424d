package pods

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// openHostPorts opens the host ports of a sandbox that was just started. One whose ports can't be opened is removed:
// its pod is better not started than started without what it counts on.
func (w *worker) openHostPorts(ctx context.Context, spec *runtime.SandboxSpec, id string) error {
	if w.m.HostPorts == nil || spec.HostNetwork || len(spec.Ports) == 0 {
		return nil
	}
	observed, err := w.m.Engine.Pod(ctx, w.uid)
	if err == nil {
		err = w.m.HostPorts.Set(ctx, &observed)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	if removeErr := w.m.Engine.Remove(context.WithoutCancel(ctx), id); removeErr != nil {
		return fmt.Errorf("%w (and remove the sandbox: %v)", err, removeErr)
	}
	return err
}

// setHostPorts follows a sandbox that ended, and those that were started before the kubelet.
func (w *worker) setHostPorts(ctx context.Context, pod *v1.Pod, observed *runtime.Pod) {
	if w.m.HostPorts == nil {
		return
	}
	if err := w.m.HostPorts.Set(ctx, observed); err != nil && ctx.Err() == nil {
		w.logger.Error(err, "Host ports of the pod can't be set, will be retried", "pod", klog.KObj(pod))
		w.m.record(pod, v1.EventTypeWarning, "FailedHostPorts", fmt.Sprintf("Failed to set host ports: %v", err))
	}
}
