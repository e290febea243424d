package scheduler

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// preempt evicts the victims and removes the nominations of pods of lower priority for the same node.
func (s *Scheduler) preempt(ctx context.Context, pod *snapshot.Pod, result *cycle.PostFilterResult) {
	began, failed := s.config.Clock.Now(), false
	if len(result.Victims) > 0 {
		s.metrics.victims.Observe(float64(len(result.Victims)))
	}
	for _, victim := range result.Victims {
		if err := s.evict(ctx, pod, victim.Obj, result.Node); err != nil && ctx.Err() == nil {
			failed = true
			klog.FromContext(ctx).Error(err, "Victim could not be taken away", "pod", klog.KObj(victim.Obj), "for",
				klog.KObj(pod.Obj))
		}
	}
	if len(result.Victims) > 0 {
		s.metrics.evicted(s.config.Clock.Since(began), failed)
	}
	for _, p := range s.outranked(pod, result.Node) {
		patch := []byte(`{"status":{"nominatedNodeName":null}}`)
		_, err := s.client.CoreV1().Pods(p.Obj.Namespace).Patch(ctx, p.Obj.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Nomination could not be taken back", "pod", klog.KObj(p.Obj))
		}
	}
}

// outranked forgets and returns the pods of lower priority that are nominated to the node.
func (s *Scheduler) outranked(pod *snapshot.Pod, node string) []*snapshot.Pod {
	var lower []*snapshot.Pod
	for _, p := range s.nominations.on(node) {
		if p.Priority < pod.Priority {
			lower = append(lower, p)
		}
	}
	for _, p := range lower {
		s.nominations.remove(p.UID())
	}
	return lower
}

// evict marks a victim and deletes it.
func (s *Scheduler) evict(ctx context.Context, pod *snapshot.Pod, victim *v1.Pod, node string) error {
	if victim.DeletionTimestamp != nil {
		return nil
	}
	profile := pod.Obj.Spec.SchedulerName
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": victim.UID},
		"status": map[string]any{"conditions": []v1.PodCondition{{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
			Message:            fmt.Sprintf("%s: preempting to accommodate a higher priority pod", profile),
			LastTransitionTime: metav1.NewTime(s.config.Clock.Now()), ObservedGeneration: victim.Generation,
		}}},
	})
	if err != nil {
		return err
	}
	pods := s.client.CoreV1().Pods(victim.Namespace)
	if _, err := pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status"); err != nil {
		return ignoreGone(err)
	}
	if err := pods.Delete(ctx, victim.Name, *metav1.NewPreconditionDeleteOptions(string(victim.UID))); err != nil {
		return ignoreGone(err)
	}
	s.Recorder(profile).Eventf(victim, pod.Obj, v1.EventTypeNormal, "Preempted", "Preempting",
		"Preempted by pod %v on node %v", pod.UID(), node)
	return nil
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
