package pods

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// afterHook is what a container gets at least to end after its preStop hook used the time up.
const afterHook = 2 * time.Second

// decideEnd notes that the pod has to end, and how soon; it is called with the lock held.
func (w *worker) decideEnd(now time.Time) {
	if deadline, ok := w.deadline(); ok && w.rejected == nil && !now.Before(deadline) && w.ending == nil && w.pod.DeletionTimestamp == nil && !w.over() {
		w.rejected = &rejection{reason: "DeadlineExceeded", message: "Pod was active on the node longer than the specified deadline"}
		w.m.record(w.pod, v1.EventTypeNormal, "DeadlineExceeded", w.rejected.message)
	}
	if !w.gone && w.pod.DeletionTimestamp == nil && w.rejected == nil && !w.over() {
		return
	}
	grace := graceOf(w.pod)
	if w.pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*w.pod.DeletionGracePeriodSeconds) * time.Second
	}
	if w.rejected != nil && w.rejected.within > 0 {
		grace = min(grace, w.rejected.within)
	}
	if w.gone {
		grace = max(grace, time.Second) // also those deleted by force may say goodbye
	}
	if w.ending == nil {
		w.ending = &plan.Stop{Since: now, Grace: grace}
	}
	w.ending.Grace = min(w.ending.Grace, grace) // a grace once given can only be shortened
}

// over tells that the API has the pod in a final phase: it never runs again.
func (w *worker) over() bool {
	return ended(w.pod.Status.Phase)
}

func ended(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// deadline is when activeDeadlineSeconds ends the pod; it is called with the lock held.
func (w *worker) deadline() (time.Time, bool) {
	if w.pod == nil || w.pod.Spec.ActiveDeadlineSeconds == nil {
		return time.Time{}, false
	}
	start := w.pod.Status.StartTime
	if w.status != nil {
		start = w.status.StartTime
	}
	if start == nil {
		return time.Time{}, false
	}
	return start.Add(time.Duration(*w.pod.Spec.ActiveDeadlineSeconds) * time.Second), true
}

func graceOf(pod *v1.Pod) time.Duration {
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		return v1.DefaultTerminationGracePeriodSeconds * time.Second
	}
	return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
}

// stopContainer begins to stop a container; it is called with the lock held.
func (w *worker) stopContainer(ctx context.Context, pod *v1.Pod, observed *runtime.Pod, action plan.Action) {
	c := containerOf(pod, action.Name)
	_, again := w.stopping[action.ID]
	if c != nil && !again {
		w.m.recordContainer(pod, c, v1.EventTypeNormal, "Killing", action.Message)
	}
	deadline := w.m.Clock.Now().Add(action.Grace)
	w.stopping[action.ID] = deadline
	w.ops.Go(func() {
		if again {
			c = nil // its hook runs already
		}
		w.kill(ctx, pod, c, action.ID, action.Grace)
		w.stopped(action.ID, deadline)
	})
}

// stopped ends the bookkeeping of a stop, unless a shorter one took its place.
func (w *worker) stopped(id string, deadline time.Time) {
	w.mu.Lock()
	w.deeds++
	if w.stopping[id].Equal(deadline) {
		delete(w.stopping, id)
	}
	w.mu.Unlock()
	w.poke()
}

// kill runs the preStop hook of c, if any, and stops the container within grace.
func (w *worker) kill(ctx context.Context, pod *v1.Pod, c *v1.Container, id string, grace time.Duration) {
	deadline := w.m.Clock.Now().Add(grace)
	if c != nil && c.Lifecycle != nil && c.Lifecycle.PreStop != nil && grace > 0 && !w.m.Builder.Virtual {
		hookCtx, cancel := context.WithTimeout(ctx, grace)
		err := w.m.Hooks.Lifecycle(hookCtx, hooks.Target{ID: id, PodIP: pod.Status.PodIP, Container: c}, c.Lifecycle.PreStop)
		cancel()
		if err != nil && ctx.Err() == nil {
			w.m.recordContainer(pod, c, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		}
		grace = max(deadline.Sub(w.m.Clock.Now()), afterHook)
	}
	for attempt := 0; ; attempt++ {
		err := w.m.Engine.Stop(ctx, id, grace)
		if err == nil || ctx.Err() != nil {
			return
		}
		w.logger.Error(err, "Container can't be stopped", "containerID", id)
		if attempt == 2 {
			return // the next look tries again
		}
		grace = max(0, deadline.Sub(w.m.Clock.Now()))
	}
}

func (w *worker) stopSandbox(ctx context.Context, action plan.Action) {
	deadline := w.m.Clock.Now()
	w.stopping[action.ID] = deadline
	w.ops.Go(func() {
		if err := w.m.Engine.Stop(ctx, action.ID, 0); err != nil && ctx.Err() == nil {
			w.logger.Error(err, "Sandbox can't be stopped", "sandboxID", action.ID)
		}
		w.stopped(action.ID, deadline)
	})
}

func (w *worker) remove(ctx context.Context, action plan.Action) {
	deadline := w.m.Clock.Now()
	w.stopping[action.ID] = deadline
	delete(w.messages, action.ID)
	w.ops.Go(func() {
		if err := w.m.Engine.Remove(ctx, action.ID); err != nil && ctx.Err() == nil {
			w.logger.Error(err, "Container can't be removed", "containerID", action.ID)
		}
		w.mu.Lock()
		w.deeds++
		delete(w.stopping, action.ID)
		w.mu.Unlock()
	})
}

// Bounds of a termination message: of a file, and of the tail of a log.
const (
	maxMessage      = 4096
	maxLogMessage   = 2048
	logMessageLines = 80
)

// readMessages reads the last words of containers that ended; it is called with the lock held.
func (w *worker) readMessages(observed *runtime.Pod) {
	for i := range observed.Containers {
		run := &observed.Containers[i]
		if _, known := w.messages[run.ID]; known || run.State != runtime.Exited || run.StartErr != "" {
			continue
		}
		message := ""
		if run.MessageFile != "" {
			message = head(run.MessageFile, maxMessage)
		}
		c := containerOf(w.pod, run.Name)
		if message == "" && run.ExitCode != 0 && c != nil && c.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError {
			message = w.logTail(run.ID)
		}
		w.messages[run.ID] = message
	}
}

// head reads the first bytes of a file, however much a container wrote into it; nothing if it can't be read.
func head(path string, limit int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return ""
	}
	return string(data)
}

func (w *worker) logTail(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	lines := int64(logMessageLines)
	var out strings.Builder
	if err := w.m.Engine.Logs(ctx, id, runtime.LogOptions{Tail: &lines}, &out, &out); err != nil {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	text := out.String()
	return text[max(0, len(text)-maxLogMessage):]
}

// orphan makes up the pod that containers without one belonged to.
func orphan(found *runtime.Pod) *v1.Pod {
	grace := int64(v1.DefaultTerminationGracePeriodSeconds)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: found.UID, Namespace: found.Namespace, Name: found.Name},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}
	return pod
}
