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
	"quintet.dev/quintet/components/scheduler/queue"
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
	s.recorder = map[string]events.EventRecorderLogger{}
	for name := range s.profiles {
		s.recorder[name] = broadcaster.NewRecorder(scheme(), name)
	}
	return func() {
		cancel()
		broadcaster.Shutdown()
	}
}

// bind writes where the pod goes.
func (s *Scheduler) bind(ctx context.Context, item *queue.Item, pod *snapshot.Pod, d *cycle.Decision, began time.Time) {
	obj := pod.Obj
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name, UID: obj.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: d.Node},
	}
	profile := obj.Spec.SchedulerName
	if err := s.client.CoreV1().Pods(obj.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		s.metrics.attempt("error", profile, s.config.Clock.Since(began))
		s.unbind(ctx, item, pod, err)
		return
	}
	now := s.config.Clock.Now()
	s.metrics.attempt("scheduled", profile, now.Sub(began))
	s.metrics.attempts.Observe(float64(item.Attempts))
	s.metrics.sli.WithLabelValues(attemptsLabel(item.Attempts)).Observe(now.Sub(item.Since).Seconds())
	s.queue.Done(item)
	klog.FromContext(ctx).V(2).Info("Bound pod", "pod", klog.KObj(obj), "node", d.Node, "evaluatedNodes", d.Evaluated, "feasibleNodes", d.Feasible)
	s.recorder[profile].Eventf(obj, nil, v1.EventTypeNormal, "Scheduled", "Binding",
		"Successfully assigned %v/%v to %v", obj.Namespace, obj.Name, d.Node)
}

// unbind takes an assumption back whose binding failed.
func (s *Scheduler) unbind(ctx context.Context, item *queue.Item, pod *snapshot.Pod, err error) {
	s.mu.Lock()
	if s.snapshot.Forget(pod.UID()) {
		s.queue.Move(queue.Event{Kind: queue.PodRemoved, OldPod: pod})
	}
	s.mu.Unlock()
	if !s.queue.Deleted(item) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Pod could not be bound and will be tried again", "pod", klog.KObj(pod.Obj))
		s.tell(ctx, pod, v1.PodReasonSchedulerError, err.Error(), nil)
	}
	s.queue.Retry(item)
}

// refuse writes why the pod has no node, and makes room if the decision says so. The pod is given back afterwards, so
// that its next try can't overtake this one's writes.
func (s *Scheduler) refuse(ctx context.Context, item *queue.Item, pod *snapshot.Pod, d *cycle.Decision) {
	message := d.Message()
	klog.FromContext(ctx).V(2).Info("Pod can't be scheduled", "pod", klog.KObj(pod.Obj), "reason", message)
	s.tell(ctx, pod, v1.PodReasonUnschedulable, message, nominate(d))
	if d.Room != nil && d.Room.Node != "" {
		s.preempt(ctx, pod, d.Room)
	}
	s.queue.Requeue(item, d.Plugins())
}

// tell writes the condition PodScheduled and, if node is not nil, status.nominatedNodeName; and an event.
func (s *Scheduler) tell(ctx context.Context, pod *snapshot.Pod, reason, message string, node *string) {
	obj := pod.Obj
	s.recorder[obj.Spec.SchedulerName].Eventf(obj, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", truncate(message))
	patch := statusPatch(obj, v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: obj.Generation,
	}, node, s.config.Clock.Now())
	if patch == nil {
		return
	}
	_, err := s.client.CoreV1().Pods(obj.Namespace).Patch(ctx, obj.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Pod's status could not be written", "pod", klog.KObj(obj))
	}
}

// nominate is what becomes of status.nominatedNodeName; nil leaves it.
func nominate(d *cycle.Decision) *string {
	if d.Room == nil || d.Room.KeepNomination {
		return nil
	}
	return &d.Room.Node
}

// statusPatch returns nil if the pod's status says it all already.
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

func truncate(message string) string {
	const more = " ..."
	if len(message) <= noteLimit {
		return message
	}
	return message[:noteLimit-len(more)] + more
}
