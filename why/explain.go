package why

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Explain says what an object is and why, from the object and what surrounds it. It reads no clock and changes nothing
// that it is given. Objects of kinds that have no rule of their own are taken at their conditions, as kstatus and
// kubectl wait do.
func Explain(obj client.Object, s Snapshot) Answer {
	obj = typed(obj)
	a := Answer{Object: ref(kindOf(obj), obj)}
	if obj.GetDeletionTimestamp() != nil {
		a.State, a.Causes = Terminating, s.terminating(obj)
		return a
	}
	a.State, a.Causes = s.explain(obj)
	return a
}

func (s *Snapshot) explain(obj client.Object) (State, []Cause) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return s.pod(o)
	case *appsv1.Deployment:
		return s.deployment(o)
	case *appsv1.ReplicaSet:
		return s.replicaSet(o)
	case *corev1.ReplicationController:
		return s.replicationController(o)
	case *appsv1.StatefulSet:
		return s.statefulSet(o)
	case *appsv1.DaemonSet:
		return s.daemonSet(o)
	case *batchv1.Job:
		return s.job(o)
	case *batchv1.CronJob:
		return s.cronJob(o)
	case *corev1.PersistentVolumeClaim:
		return s.persistentVolumeClaim(o)
	case *corev1.Service:
		return s.service(o)
	case *corev1.Node:
		return node(o)
	case *corev1.Namespace:
		return Ready, nil
	}
	return generic(obj)
}

// kinds are those with rules of their own, by the API version and kind of an object that came without a Go type.
var kinds = map[string]func() client.Object{
	"v1 Pod":                   func() client.Object { return &corev1.Pod{} },
	"v1 ReplicationController": func() client.Object { return &corev1.ReplicationController{} },
	"v1 PersistentVolumeClaim": func() client.Object { return &corev1.PersistentVolumeClaim{} },
	"v1 Service":               func() client.Object { return &corev1.Service{} },
	"v1 Node":                  func() client.Object { return &corev1.Node{} },
	"v1 Namespace":             func() client.Object { return &corev1.Namespace{} },
	"apps/v1 Deployment":       func() client.Object { return &appsv1.Deployment{} },
	"apps/v1 ReplicaSet":       func() client.Object { return &appsv1.ReplicaSet{} },
	"apps/v1 StatefulSet":      func() client.Object { return &appsv1.StatefulSet{} },
	"apps/v1 DaemonSet":        func() client.Object { return &appsv1.DaemonSet{} },
	"batch/v1 Job":             func() client.Object { return &batchv1.Job{} },
	"batch/v1 CronJob":         func() client.Object { return &batchv1.CronJob{} },
}

// typed gives an unstructured object of a kind that has rules its Go type.
func typed(obj client.Object) client.Object {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	empty := kinds[u.GetAPIVersion()+" "+u.GetKind()]
	if empty == nil {
		return obj
	}
	out := empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return obj // its conditions still tell
	}
	return out
}

// kindOf is the kind of an object, also of one that a client returned without it.
func kindOf(obj client.Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	name := fmt.Sprintf("%T", obj)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// Condition types whose False, and those whose True, says that something is wrong; and those that say that nothing more
// is done about it.
var (
	good = []string{"Ready", "Available", "Established", "NamesAccepted", "Healthy", "Synced", "Succeeded", "Accepted",
		"Programmed", "ScalingActive", "AbleToScale", "DisruptionAllowed"}
	bad   = []string{"Failed", "Degraded", "Stalled", "Error", "ReplicaFailure", "FailureTarget"}
	final = []string{"Failed", "Stalled"}
)

// generic reads status.observedGeneration and status.conditions.
func generic(obj client.Object) (State, []Cause) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return Ready, nil
	}
	state := Ready
	var causes []Cause
	observed, found, _ := unstructured.NestedInt64(content, "status", "observedGeneration")
	if found && observed < obj.GetGeneration() {
		state, causes = Pending, append(causes, behind(observed, obj.GetGeneration()))
	}
	conditions, _, _ := unstructured.NestedSlice(content, "status", "conditions")
	for _, each := range conditions {
		fields, ok := each.(map[string]any)
		if !ok {
			continue
		}
		var c metav1.Condition
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c) != nil {
			continue
		}
		switch {
		case slices.Contains(bad, c.Type) && c.Status == metav1.ConditionTrue:
			causes = append(causes, ofCondition(c))
			if state == Ready {
				state = Pending
			}
			if slices.Contains(final, c.Type) {
				state = Failed
			}
		case slices.Contains(good, c.Type) && c.Status != metav1.ConditionTrue:
			causes = append(causes, ofCondition(c))
			if state == Ready {
				state = Pending
			}
		}
	}
	return state, causes
}

func ofCondition(c metav1.Condition) Cause {
	reason := c.Reason
	if reason == "" {
		reason = c.Type + string(c.Status)
	}
	message := fmt.Sprintf("Its condition %s is %s.", c.Type, c.Status)
	if c.Message != "" {
		message = fmt.Sprintf("Its condition %s is %s: %s", c.Type, c.Status, c.Message)
	}
	return Cause{Reason: reason, Message: message}
}

func behind(observed, generation int64) Cause {
	return Cause{Reason: "ControllerBehind",
		Message: fmt.Sprintf("Its controller has seen generation %d, the newest is %d.", observed, generation),
		Help:    "See whether the controller of this kind runs, and its log."}
}
