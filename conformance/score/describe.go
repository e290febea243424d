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

// describe tells in words what changed between two versions of an object; before is nil for the first one seen. A note
// without a player was written by whoever the managed fields name.
func describe(kind watch.EventType, before metav1.Object, after runtime.Object) []Note {
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

func existence(kind watch.EventType) []Note {
	if kind == watch.Deleted {
		return []Note{{Player: "kube-apiserver", What: "removed", Mark: Gone}}
	}
	return []Note{{What: "created", Mark: Accepted}}
}

func counts(oldWant, want, oldReady, ready int32) []Note {
	var notes []Note
	if oldWant != want {
		notes = append(notes, Note{What: fmt.Sprintf("scaled from %d to %d", oldWant, want)})
	}
	if oldReady != ready {
		notes = append(notes, Note{What: fmt.Sprintf("%d of %d ready", ready, want)})
	}
	return notes
}

func describePod(kind watch.EventType, old, pod *corev1.Pod) []Note {
	if old == nil || kind == watch.Deleted {
		return existence(kind)
	}
	var notes []Note
	if old.Spec.NodeName == "" && pod.Spec.NodeName != "" {
		// A binding leaves no managed fields: the pod's own scheduler is who may write it.
		notes = append(notes, Note{Player: program(pod.Spec.SchedulerName), What: "bound to " + pod.Spec.NodeName, Mark: Bound})
	}
	if old.DeletionTimestamp == nil && pod.DeletionTimestamp != nil {
		notes = append(notes, Note{Player: "kube-apiserver", What: "deletion asked for"})
	}
	if old.Status.Phase != pod.Status.Phase {
		n := Note{What: "phase " + string(pod.Status.Phase)}
		if pod.Status.Phase == corev1.PodRunning {
			n.Mark = Running
		}
		notes = append(notes, n)
	}
	if !ready(old) && ready(pod) {
		notes = append(notes, Note{What: "ready at " + pod.Status.PodIP})
	}
	if r := refusal(pod); r != "" && r != refusal(old) {
		notes = append(notes, Note{What: r})
	}
	return notes
}

func describeEvent(kind watch.EventType, e *corev1.Event) []Note {
	if kind == watch.Deleted {
		return nil
	}
	player := e.Source.Component
	if player == "" {
		player = e.ReportingController
	}
	n := Note{Player: program(player), What: fmt.Sprintf("event %s: %s", e.Reason, e.Message)}
	switch e.Reason {
	case "Pulled":
		n.Mark = Pulled
	case "Started":
		n.Mark = Started
	}
	return []Note{n}
}

// program finds the player behind the name that an event carries: controllers sign with their own names.
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
