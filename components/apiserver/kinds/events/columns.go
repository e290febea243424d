package events

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// Columns are the columns of events.
func Columns() show.Columns {
	doc := corev1.Event{}.SwaggerDoc()
	c := show.Columns(nil).
		String("Last Seen", doc["lastTimestamp"]).
		String("Type", doc["type"]).
		String("Reason", doc["reason"]).
		String("Object", doc["involvedObject"]).
		Wide("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"]).
		Wide("Source", doc["source"]).
		String("Message", doc["message"]).
		Wide("First Seen", doc["firstTimestamp"]).
		Wide("Count", doc["count"])
	name := show.Name()[0]
	name.Priority = 1
	return append(c, name)
}

// Row are the cells of an event.
func Row(e *corev1.Event) []any {
	first := show.Age(e.FirstTimestamp)
	if e.FirstTimestamp.IsZero() {
		first = show.Age(metav1.Time(e.EventTime))
	}
	last, count := first, e.Count
	if !e.LastTimestamp.IsZero() {
		last = show.Age(e.LastTimestamp)
	}
	if e.Series != nil {
		last, count = show.Age(metav1.Time(e.Series.LastObservedTime)), e.Series.Count
	} else if count == 0 {
		count = 1 // events of the newer API that happened once carry no count
	}
	target := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		target += "/" + e.InvolvedObject.Name
	}
	return []any{
		last, e.Type, e.Reason, target, e.InvolvedObject.FieldPath, source(e), strings.TrimSpace(e.Message),
		first, int64(count), e.Name,
	}
}

func source(e *corev1.Event) string {
	who, where := cmp.Or(e.Source.Component, e.ReportingController), cmp.Or(e.Source.Host, e.ReportingInstance)
	if where != "" {
		return who + ", " + where
	}
	return who
}
