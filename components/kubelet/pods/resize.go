package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/status"
)

// resize is the state of an in-place resize (KEP-1287). The resources in the spec are allocated when the node has them,
// and then actuated; until then the pod keeps its allocation.
type resize struct {
	standing // what was decided, as far as it was taken in
	// progress is the condition PodResizeInProgress, nil if the allocation is actuated.
	progress *v1.PodCondition
	// tries holds containers whose resize is under way (zero) or failed, and when it is tried again, by ID.
	tries   map[string]time.Time
	renewed map[string]bool // containers that are stopped to be started again, by ID
	// limits are what the pod's control group has, since it is that of sandbox.
	limits  cgroups.Limits
	sandbox string
	unset   bool // it could not be given others
	tried   int  // the observation for which that was tried last
}

// begun returns r for a pod that was just admitted: it resumes the resize that an earlier kubelet recorded in the
// status.
func (r resize) begun(pod *v1.Pod) resize {
	r.allocation = restoredAllocation(pod)
	for i := range pod.Status.Conditions {
		switch c := pod.Status.Conditions[i]; c.Type {
		case v1.PodResizePending:
			r.pending = &c
		case v1.PodResizeInProgress:
			r.progress = &c
		}
	}
	if r.allocation.matches(pod) {
		r.pending = nil
	}
	return r
}

func (r *resize) conditions() []v1.PodCondition {
	var out []v1.PodCondition
	for _, c := range []*v1.PodCondition{r.pending, r.progress} {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// allocate requests the allocation of the pod's spec, unless it has it, and stores the decision.
func (w *worker) allocate(now time.Time) {
	s := &w.state
	if !s.admitted || s.rejected != nil || s.gone {
		return
	}
	if w.m.admission.update(s.pod, s.ending == nil) {
		if node := w.Node(); node != nil {
			w.m.wake(w.m.admission.resize(node, now), w.uid)
		}
	}
	if decided, ok := w.m.admission.standing(w.uid); ok {
		w.takeStanding(decided, now)
	}
}

// takeStanding stores the decision about the pod's resources and records it as an event.
func (w *worker) takeStanding(decided standing, now time.Time) {
	s, r := &w.state, &w.state.resize
	old := r.standing
	r.standing = decided
	if granted := decided.granted; granted != old.granted {
		r.progress = condition(v1.PodResizeInProgress, nil, "", "", granted.Generation, now)
		clear(r.tries)
		s.stale = true // the downward API shows resources
		w.record(granted, v1.EventTypeNormal, "ResizeStarted",
			"Pod resize started: "+summary(granted, granted.Generation, ""))
	}
	if was, c := old.pending, decided.pending; c != nil &&
		(was == nil || was.Reason != c.Reason || was.ObservedGeneration != c.ObservedGeneration) {
		w.record(s.pod, v1.EventTypeWarning, "Resize"+c.Reason,
			"Pod resize "+c.Reason+": "+summary(s.pod, c.ObservedGeneration, c.Message))
	}
}

func condition(
	kind v1.PodConditionType, old *v1.PodCondition, reason, message string, generation int64, now time.Time,
) *v1.PodCondition {
	at := metav1.NewTime(now).Rfc3339Copy()
	c := &v1.PodCondition{
		Type: kind, Status: v1.ConditionTrue, LastProbeTime: at, LastTransitionTime: at,
		Reason: reason, Message: message, ObservedGeneration: generation,
	}
	if old != nil && old.Reason == reason {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

// summary is what events tell of a resize.
func summary(pod *v1.Pod, generation int64, problem string) string {
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	out := struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}{Generation: generation, Error: problem}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		out.InitContainers = append(out.InitContainers, container{c.Name, c.Resources})
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		out.Containers = append(out.Containers, container{c.Name, c.Resources})
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// resources are what the engine is to give the containers of a pod that has what it was allocated; nil if it was not.
func (s *state) resources(pod *v1.Pod, builder *spec.Builder) map[string]runtime.Resources {
	if s.resize.allocation == nil {
		return nil
	}
	out := map[string]runtime.Resources{}
	for _, c := range plan.Containers(pod) {
		out[c.Name] = builder.Resources(pod, c)
	}
	return out
}

// followResize updates progress: whether the allocation is actuated.
func (w *worker) followResize(pod *v1.Pod, wanted map[string]runtime.Resources, now time.Time) {
	s, r := &w.state, &w.state.resize
	if wanted == nil {
		return
	}
	left := s.containersLeft(pod, wanted) || !s.limited(w.Builder.PodLimits(pod))
	switch {
	case left && r.progress == nil:
		r.progress = condition(v1.PodResizeInProgress, nil, "", "", pod.Generation, now)
	case !left && r.progress != nil:
		w.record(pod, v1.EventTypeNormal, "ResizeCompleted",
			"Pod resize completed: "+summary(pod, r.progress.ObservedGeneration, ""))
		r.progress = nil
		clear(r.tries)
		s.freed = true
	}
}

// containersLeft tells that containers don't have what they were allocated yet.
func (s *state) containersLeft(pod *v1.Pod, wanted map[string]runtime.Resources) bool {
	left := false
	for _, c := range plan.Containers(pod) {
		run := s.observed.Container(c.Name)
		switch {
		case run == nil:
		case run.State == runtime.Running:
			resizes, _ := plan.Resizes(c, run, wanted)
			left = left || resizes
		case run.State == runtime.Exited && s.resize.renewed[run.ID]:
			left = true
		}
	}
	return left
}

// resizeContainer begins to give a container other resources.
func (w *worker) resizeContainer(ctx context.Context, pod *v1.Pod, action plan.Action) {
	s := &w.state
	s.resize.tries[action.ID] = time.Time{}
	shrinks := false
	if run := s.observed.Container(action.Name); run != nil {
		shrinks = run.MemoryBytes == 0 || action.Resources.MemoryBytes < run.MemoryBytes
	}
	w.begin(func(func(result)) result {
		err := w.tryResize(ctx, action, shrinks)
		if c := containerOf(pod, action.Name); c != nil && err == nil {
			// the engine took the swap back
			err = w.Cgroups.SetContainer(pod.UID, status.QOS(pod), action.ID, w.Builder.ContainerSettings(pod, c))
		}
		return containerResized{pod, action.ID, err}
	})
}

// containerResized tells that a container has other resources, or why not.
type containerResized struct {
	pod *v1.Pod
	id  string
	err error
}

func (r containerResized) apply(ctx context.Context, w *worker) {
	s := &w.state
	s.changed()
	delete(s.resize.tries, r.id)
	if r.err != nil && ctx.Err() == nil {
		now := w.Clock.Now()
		s.resize.tries[r.id] = now.Add(retryDelay)
		w.resizeFailed(r.pod, r.err, now)
	}
}

// tryResize changes what a container has. Memory that it uses is not taken from it.
func (o *operations) tryResize(ctx context.Context, action plan.Action, shrinks bool) error {
	if engine, able := o.Engine.(runtime.Statistics); able && shrinks && action.Resources.MemoryBytes > 0 {
		usage, err := engine.Stats(ctx, action.ID)
		if err != nil {
			return fmt.Errorf("unable to read memory usage of container %q: %w", action.Name, err)
		}
		if usage.MemoryBytes >= uint64(action.Resources.MemoryBytes) {
			return fmt.Errorf("cannot decrease memory limits: "+
				"attempting to set container %q memory limit (%d) below current usage (%d)",
				action.Name, action.Resources.MemoryBytes, usage.MemoryBytes)
		}
	}
	return o.Engine.Resize(ctx, action.ID, action.Resources)
}

// resizeFailed stores why a resize could not be actuated and records it as an event.
func (w *worker) resizeFailed(pod *v1.Pod, err error, now time.Time) {
	generation := pod.Generation
	old := w.state.resize.progress
	if old != nil {
		generation = old.ObservedGeneration
	}
	if old == nil || old.Message != err.Error() {
		w.record(pod, v1.EventTypeWarning, "ResizeError", "Pod resize error: "+summary(pod, generation, err.Error()))
	}
	w.state.resize.progress = condition(v1.PodResizeInProgress, old, v1.PodReasonError, err.Error(), generation, now)
}
