package events

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestSources: who tells of an event and from where are two things, each in its older field or else in its newer one.
func TestSources(t *testing.T) {
	for want, e := range map[string]corev1.Event{
		"":     {},
		", i":  {ReportingInstance: "i"},
		"c, i": {Source: corev1.EventSource{Component: "c"}, ReportingController: "r", ReportingInstance: "i"},
		"r, h": {Source: corev1.EventSource{Host: "h"}, ReportingController: "r", ReportingInstance: "i"},
		"c, h": {Source: corev1.EventSource{Component: "c", Host: "h"}},
	} {
		if got := source(&e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
