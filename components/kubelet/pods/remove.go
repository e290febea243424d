package pods

import (
	"context"

	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// containerRemoved is the result of the removal of a dead container. The engine sends an event of it, too.
type containerRemoved struct{ id string }

func (r containerRemoved) apply(_ context.Context, w *worker) {
	w.state.opsDone++
	delete(w.state.stopping, r.id)
}

func (w *worker) removeContainer(ctx context.Context, action plan.Action) {
	w.state.stopping[action.ID] = w.Clock.Now()
	delete(w.state.messages, action.ID)
	w.begin(func(func(result)) result {
		if err := w.Engine.Remove(ctx, action.ID); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Container can't be removed", "containerID", action.ID)
		} else if err == nil && w.Logs != nil {
			if err := w.Logs.Remove(action.ID); err != nil {
				klog.FromContext(ctx).Error(err, "Log of the container can't be removed", "containerID", action.ID)
			}
		}
		return containerRemoved{action.ID}
	})
}

// remove begins to remove all traces of an ended pod from the node. Nothing else is done about it meanwhile.
func (w *worker) remove(ctx context.Context) {
	w.state.cleaning = true
	observed := w.state.observed
	w.m.probes.Forget(w.uid)
	w.begin(func(func(result)) result {
		err := w.removeAll(ctx, &observed)
		if share := w.m.ShareCPUs(); share != nil { // the pod is gone all the same
			klog.FromContext(ctx).Error(share, "CPU weight of burstable pods can't be set")
		}
		return removed{err}
	})
}

// removed tells that nothing of the pod is left on the node, or what could not be removed.
type removed struct{ err error }

func (r removed) apply(ctx context.Context, w *worker) {
	s := &w.state
	s.cleaning = false
	s.opsDone++
	switch {
	case r.err != nil:
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(r.err, "Pod can't be cleaned up yet, will be retried")
		}
		s.wakeAt = w.Clock.Now().Add(observeRetry)
	case s.gone:
		w.Status.Forget(w.uid)
		s.over = true
	default: // its object is removed last of all
		w.Status.Delete(s.pod)
	}
}

func (o *operations) removeAll(ctx context.Context, observed *runtime.Pod) error {
	for i := range observed.Containers {
		if err := o.Engine.Remove(ctx, observed.Containers[i].ID); err != nil {
			return err
		}
	}
	for i := range observed.Sandboxes {
		if err := o.Engine.Remove(ctx, observed.Sandboxes[i].ID); err != nil {
			return err
		}
	}
	if o.Claims != nil {
		if err := o.Claims.Unprepare(ctx, o.uid); err != nil {
			return err
		}
	}
	if o.HostPorts != nil {
		if err := o.HostPorts.Forget(ctx, o.uid); err != nil {
			return err
		}
	}
	o.Images.Forget(o.uid)
	if o.Logs != nil {
		if err := o.Logs.RemovePod(o.uid); err != nil {
			return err
		}
	}
	if o.Volumes != nil {
		if err := o.Volumes.Remove(ctx, o.uid); err != nil {
			return err
		}
	}
	began := o.Clock.Now()
	defer func() { o.Metrics.Cgroup("destroy", o.Clock.Since(began)) }()
	return o.Cgroups.Remove(o.uid)
}
