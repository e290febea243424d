package pods

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/plan"
)

// afterHook is what a container gets at least to end after its preStop hook used the time up.
const afterHook = 2 * time.Second

// decideEnd notes that the pod has to end, and how soon.
func (s *state) decideEnd(now time.Time) {
	if !s.leaves() && s.rejected == nil && !s.final() {
		return
	}
	grace := plan.Grace(s.pod)
	if s.pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*s.pod.DeletionGracePeriodSeconds) * time.Second
	}
	if s.rejected != nil && s.rejected.within > 0 {
		grace = min(grace, s.rejected.within)
	}
	if s.gone {
		grace = max(grace, time.Second) // also those deleted by force may say goodbye
	}
	if s.ending == nil {
		s.ending = &plan.Stop{Since: now, Grace: grace}
	}
	s.ending.Grace = min(s.ending.Grace, grace) // a grace once given can only be shortened
}

// exceedsDeadline is why a pod ends that ran longer than activeDeadlineSeconds allows, nil if it did not.
func (s *state) exceedsDeadline(now time.Time) *rejection {
	deadline, ok := s.deadline()
	if !ok || now.Before(deadline) || s.rejected != nil || s.ending != nil ||
		s.pod.DeletionTimestamp != nil || s.final() {
		return nil
	}
	return &rejection{reason: "DeadlineExceeded",
		message: "Pod was active on the node longer than the specified deadline"}
}

// deadline is when activeDeadlineSeconds ends the pod.
func (s *state) deadline() (time.Time, bool) {
	if s.pod.Spec.ActiveDeadlineSeconds == nil {
		return time.Time{}, false
	}
	start := s.pod.Status.StartTime
	if s.status != nil {
		start = s.status.StartTime
	}
	if start == nil {
		return time.Time{}, false
	}
	return start.Add(time.Duration(*s.pod.Spec.ActiveDeadlineSeconds) * time.Second), true
}

// stopped tells that a stop ended.
type stopped struct {
	id       string
	deadline time.Time
}

func (r stopped) apply(_ context.Context, w *worker) {
	w.state.changed()
	if w.state.stopping[r.id].Equal(r.deadline) { // else a shorter one took its place
		delete(w.state.stopping, r.id)
	}
}

// stopContainer begins to stop a container.
func (w *worker) stopContainer(ctx context.Context, pod *v1.Pod, action plan.Action) {
	s, c := &w.state, containerOf(pod, action.Name)
	if _, again := s.stopping[action.ID]; again {
		c = nil // its hook runs already
	} else if c != nil {
		w.recordContainer(pod, c, v1.EventTypeNormal, "Killing", action.Message)
	}
	deadline := w.Clock.Now().Add(action.Grace)
	s.stopping[action.ID] = deadline
	w.begin(func(func(result)) result {
		w.kill(ctx, pod, c, action.ID, action.Grace)
		return stopped{action.ID, deadline}
	})
}

// kill runs the preStop hook of c, if any, and stops the container within grace.
func (o *operations) kill(ctx context.Context, pod *v1.Pod, c *v1.Container, id string, grace time.Duration) {
	deadline := o.Clock.Now().Add(grace)
	if c != nil && c.Lifecycle != nil && c.Lifecycle.PreStop != nil && grace > 0 && !o.Builder.Simulated.Processes {
		hookCtx, cancel := context.WithTimeout(ctx, grace)
		err := o.Hooks.Lifecycle(hookCtx, hooks.Target{ID: id, PodIP: pod.Status.PodIP, Container: c},
			c.Lifecycle.PreStop)
		cancel()
		if err != nil && ctx.Err() == nil {
			o.recordContainer(pod, c, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		}
		grace = max(deadline.Sub(o.Clock.Now()), afterHook)
	}
	for attempt := 0; ; attempt++ {
		err := o.Engine.Stop(ctx, id, grace)
		if err == nil || ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Container can't be stopped", "containerID", id)
		if attempt == 2 {
			return // the next decision tries again
		}
		grace = max(0, deadline.Sub(o.Clock.Now()))
	}
}

func (w *worker) stopSandbox(ctx context.Context, action plan.Action) {
	deadline := w.Clock.Now()
	w.state.stopping[action.ID] = deadline
	w.begin(func(func(result)) result {
		if err := w.Engine.Stop(ctx, action.ID, 0); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Sandbox can't be stopped", "sandboxID", action.ID)
		}
		return stopped{action.ID, deadline}
	})
}
