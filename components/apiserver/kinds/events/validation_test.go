package events

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func event(at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: "ns", Name: "e", ResourceVersion: "1"},
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

func TestWhatNewerEventsTell(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name   string
		change func(e *corev1.Event)
		want   []string
	}{
		{"as it should be", func(*corev1.Event) {}, nil},
		{"about another namespace", func(e *corev1.Event) { e.InvolvedObject.Namespace = "other" }, nil},
		{"about what has no namespace", func(e *corev1.Event) { e.InvolvedObject.Namespace = "" },
			[]string{`involvedObject.namespace: Invalid value: "": does not match event.namespace`}},
		{"of the system", func(e *corev1.Event) {
			e.InvolvedObject.Namespace, e.Namespace = "",
				metav1.NamespaceSystem
		}, nil},
		{"without its time", func(e *corev1.Event) {
			e.EventTime, e.InvolvedObject.Namespace = metav1.MicroTime{},
				"other"
		},
			[]string{`involvedObject.namespace: Invalid value: "other": does not match event.namespace`,
				"eventTime: Required value"}},
		{"an empty series", func(e *corev1.Event) { e.Series = &corev1.EventSeries{} },
			[]string{`series.count: Invalid value: "": should be at least 2`,
				"series.lastObservedTime: Required value"}},
		{"a long note", func(e *corev1.Event) { e.Message = strings.Repeat("a", maxNote+1) },
			[]string{`message: Invalid value: "": can have at most 1024 characters`}},
		{"a name of its own", func(e *corev1.Event) { e.Name = "A" }, []string{`metadata.name: Invalid value: "A": ` +
			"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start " +
			"and end with an " +
			"alphanumeric character (e.g. 'example.com', regex used for validation is " +
			"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"}},
	} {
		e := event(at)
		c.change(e)
		var got []string
		for _, err := range Validate(e, true) {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
