package events

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func event(at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: "ns", Name: "e"},
		InvolvedObject:      corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p"},
		Reason:              "Waiting",
		Action:              "Wait",
		Type:                corev1.EventTypeNormal,
		EventTime:           metav1.NewMicroTime(at),
		ReportingController: "example.com/controller",
		ReportingInstance:   "one",
	}
}

func TestOnlyTheSeriesOfANewerEventMayChange(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	old := event(at)
	again := event(at.In(time.FixedZone("east", 3600)).Truncate(time.Microsecond))
	again.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(at.Add(time.Minute))}
	if errs := ValidateUpdate(again, old, true); len(errs) > 0 {
		t.Errorf("another occurrence: %v", errs)
	}
	moved := event(at.Add(time.Second))
	if errs := ValidateUpdate(moved, old, true); len(errs) != 1 || errs[0].Field != "eventTime" {
		t.Errorf("another time: %v", errs)
	}
	reworded := event(at)
	reworded.Message = "other"
	if errs := ValidateUpdate(reworded, old, true); len(errs) != 1 || errs[0].Field != "message" {
		t.Errorf("another message: %v", errs)
	}
}
