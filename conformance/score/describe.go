package score

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// describe returns the changes between two versions of an object; before is nil for the first one seen. The writer of
// an entry without a component is taken from the managed fields.
func describe(kind watch.EventType, before metav1.Object, after runtime.Object) []Entry {
	switch o := after.(type) {
	case *corev1.Pod:
		old, _ := before.(*corev1.Pod)
		return describePod(kind, old, o)
	case *corev1.Event:
		return describeEvent(kind, o)
	case *appsv1.ReplicaSet:
		old, _ := before.(*appsv1.ReplicaSet)
		if old == nil || kind == watch.Deleted {
			return existence(kind)
		}
		return counts(*old.Spec.Replicas, *o.Spec.Replicas, old.Status.ReadyReplicas, o.Status.ReadyReplicas)
	case *appsv1.Deployment:
		old, _ := before.(*appsv1.Deployment)
		if old == nil || kind == watch.Deleted {
			return existence(kind)
		}
		return counts(*old.Spec.Replicas, *o.Spec.Replicas, old.Status.ReadyReplicas, o.Status.ReadyReplicas)
	}
	return nil
}

func existence(kind watch.EventType) []Entry {
	if kind == watch.Deleted {
		return []Entry{{Actor: "kube-apiserver", What: "removed", Milestone: Gone}}
	}
	return []Entry{{What: "created", Milestone: Accepted}}
}

func counts(oldWant, want, oldReady, ready int32) []Entry {
	var notes []Entry
	if oldWant != want {
		notes = append(notes, Entry{What: fmt.Sprintf("scaled from %d to %d", oldWant, want)})
	}
	if oldReady != ready {
		notes = append(notes, Entry{What: fmt.Sprintf("%d of %d ready", ready, want)})
	}
	return notes
}

func describePod(kind watch.EventType, old, pod *corev1.Pod) []Entry {
	if old == nil || kind == watch.Deleted {
		return existence(kind)
	}
	var notes []Entry
	if old.Spec.NodeName == "" && pod.Spec.NodeName != "" {
		// A binding leaves no managed fields: its writer is the pod's scheduler.
		notes = append(notes, Entry{Actor: program(pod.Spec.SchedulerName), What: "bound to " + pod.Spec.NodeName,
			Milestone: Bound})
	}
	if old.DeletionTimestamp == nil && pod.DeletionTimestamp != nil {
		notes = append(notes, Entry{Actor: "kube-apiserver", What: "deletion asked for"})
	}
	if old.Status.Phase != pod.Status.Phase {
		n := Entry{What: "phase " + string(pod.Status.Phase)}
		if pod.Status.Phase == corev1.PodRunning {
			n.Milestone = Running
		}
		notes = append(notes, n)
	}
	if !ready(old) && ready(pod) {
		notes = append(notes, Entry{What: "ready at " + pod.Status.PodIP})
	}
	if r := refusal(pod); r != "" && r != refusal(old) {
		notes = append(notes, Entry{What: r})
	}
	return notes
}

func describeEvent(kind watch.EventType, e *corev1.Event) []Entry {
	if kind == watch.Deleted {
		return nil
	}
	component := e.Source.Component
	if component == "" {
		component = e.ReportingController
	}
	n := Entry{Actor: program(component), What: fmt.Sprintf("event %s: %s", e.Reason, e.Message)}
	switch e.Reason {
	case "Pulled":
		n.Milestone = Pulled
	case "Started":
		n.Milestone = Started
	}
	return []Entry{n}
}

// program returns the component that reports events under a name: controllers use their own names.
func program(reporter string) string {
	switch {
	case reporter == corev1.DefaultSchedulerName:
		return "kube-scheduler"
	case strings.HasSuffix(reporter, "-controller"):
		return "kube-controller-manager"
	}
	return reporter
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func refusal(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
