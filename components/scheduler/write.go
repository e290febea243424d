package scheduler

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// noteLimit is how long an event's note may be.
const noteLimit = 1024

// record starts the event recorders; the returned function stops them.
func (s *Scheduler) record(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Events will not be recorded")
	}
	recorders := map[string]events.EventRecorderLogger{}
	for name := range s.profiles {
		recorders[name] = broadcaster.NewRecorder(scheme(), name)
	}
	s.recorder.Store(&recorders)
	return func() {
		cancel()
		broadcaster.Shutdown()
	}
}

// refuse writes why the pod is unschedulable, and preempts if the decision has victims. The pod is given back
// afterwards, so that its next try can't overtake this one's writes.
func (s *Scheduler) refuse(ctx context.Context, a *attempt) {
	pod, d := a.pod, a.decision
	if result := d.PostFilterResult; result != nil && result.Writes != nil {
		if err := result.Writes(ctx); err != nil { // nothing that was decided with it holds
			d.PostFilterResult = &cycle.PostFilterResult{Message: err.Error()}
			s.nominations.remove(pod.UID())
		}
	}
	s.explanations.keep(explain(a, s.hints, s.config.Clock.Now()))
	message, refusedBy, pending := d.Message(), d.Plugins(), d.Pending()
	d.Refused = nil // thousands, which many attempts would hold while they write
	klog.FromContext(ctx).V(2).Info("Pod can't be scheduled", "pod", klog.KObj(pod.Obj), "reason", message)
	s.tell(ctx, pod, v1.PodReasonUnschedulable, message, nominate(d))
	if d.PostFilterResult != nil && d.PostFilterResult.Node != "" {
		s.preempt(ctx, pod, d.PostFilterResult)
	}
	s.queue.Requeue(a.item, refusedBy, pending)
	s.forgetIfGone(a)
}

// tell writes the condition PodScheduled and, if node is not nil, status.nominatedNodeName; and an event.
func (s *Scheduler) tell(ctx context.Context, pod *snapshot.Pod, reason, message string, node *string) {
	obj := pod.Obj
	s.Recorder(obj.Spec.SchedulerName).Eventf(obj, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s",
		truncate(message))
	patch := statusPatch(obj, v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: obj.Generation,
	}, node, s.config.Clock.Now())
	s.patchStatus(ctx, obj, patch)
}

// patchStatus writes a patch of a pod's status; nil is nothing to write.
func (s *Scheduler) patchStatus(ctx context.Context, obj *v1.Pod, patch []byte) {
	if patch == nil {
		return
	}
	_, err := s.client.CoreV1().Pods(obj.Namespace).Patch(ctx, obj.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Pod's status could not be written", "pod", klog.KObj(obj))
	}
}

// nominate is what becomes of status.nominatedNodeName; nil leaves it.
func nominate(d *cycle.Decision) *string {
	if d.PostFilterResult == nil || d.PostFilterResult.KeepNomination {
		return nil
	}
	return &d.PostFilterResult.Node
}

// statusPatch returns nil if the pod's status is up to date.
func statusPatch(pod *v1.Pod, condition v1.PodCondition, node *string, now time.Time) []byte {
	status := map[string]any{}
	if node != nil && *node != pod.Status.NominatedNodeName {
		status["nominatedNodeName"] = *node
		if *node == "" {
			status["nominatedNodeName"] = nil
		}
	}
	condition.LastTransitionTime = metav1.NewTime(now)
	same := false
	for _, c := range pod.Status.Conditions {
		if c.Type != condition.Type {
			continue
		}
		if c.Status == condition.Status {
			condition.LastTransitionTime = c.LastTransitionTime
		}
		same = c.Status == condition.Status && c.Reason == condition.Reason && c.Message == condition.Message &&
			c.ObservedGeneration == condition.ObservedGeneration
	}
	if !same {
		status["conditions"] = []v1.PodCondition{condition}
	}
	if len(status) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return nil // can't be: all of it is plain data
	}
	return patch
}

// nominationPatch sets status.nominatedNodeName.
func nominationPatch(pod *v1.Pod, node string) []byte {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"nominatedNodeName": node}})
	if err != nil {
		return nil // can't be: all of it is plain data
	}
	return patch
}

func truncate(message string) string {
	const more = " ..."
	if len(message) <= noteLimit {
		return message
	}
	return message[:noteLimit-len(more)] + more
}
