package events

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func coreEvent() kindtest.Fixture {
	return kindtest.Fixture{Kind: eventKind(), Object: `
apiVersion: v1
kind: Event
metadata: {name: e, namespace: ns}
involvedObject: {kind: Pod, namespace: ns, name: p}
reason: Started
message: " up "
type: Normal
source: {component: kubelet, host: node-1}
firstTimestamp: "2026-01-03T10:00:00Z"
lastTimestamp: "2026-01-03T11:00:00Z"
count: 3
`}
}

// modern changes an event to the newer form.
const modern = "eventTime: 2026-01-03T10:00:00.000000Z; reportingComponent: a.b/c; reportingInstance: i; action: Run"

func TestEventOfCore(t *testing.T) {
	long := strings.Repeat("x", 129)
	coreEvent().Create(t, kindtest.Table{
		"": nil,
		"involvedObject.namespace: other": {
			`involvedObject.namespace: Invalid value: "other": does not match event.namespace`,
		},
		"involvedObject.namespace: null": {
			`involvedObject.namespace: Invalid value: "": does not match event.namespace`,
		},
		"involvedObject.namespace: null; metadata.namespace: default": nil,
		modern: nil,
		modern + "; involvedObject.namespace: other": nil,
		modern + "; reportingInstance: ''; action: ''; reason: ''": {
			"reportingInstance: Required value", "action: Required value", "reason: Required value",
		},
		modern + "; reportingInstance: " + long + "; action: " + long + "; reason: " + long: {
			`reportingInstance: Invalid value: "": can have at most 128 characters`,
			`action: Invalid value: "": can have at most 128 characters`,
			`reason: Invalid value: "": can have at most 128 characters`,
		},
		modern + "; message: " + strings.Repeat("x", 1025): {
			`message: Invalid value: "": can have at most 1024 characters`,
		},
		modern + "; reportingComponent: a b": {
			`reportingComponent: Invalid value: "a b": name part must consist...`,
		},
		"message: " + strings.Repeat("x", 1025): nil, // the older form has no bounds
		"type: Strange":                         nil,
	})
}

func TestEventCells(t *testing.T) {
	row := func(last, source, first, count string) []string {
		return []string{last, "Normal", "Started", "pod/p", "", source, "up", first, count, "e"}
	}
	coreEvent().Cells(t, kindtest.Table{
		"": row("60m", "kubelet, node-1", "120m", "3"),
		"lastTimestamp: null; count: 0; source: {}; reportingComponent: r": row("120m", "r", "120m", "1"),
		"firstTimestamp: null; lastTimestamp: null; count: 0; eventTime: 2026-01-03T09:00:00.000000Z": row("3h",
			"kubelet, node-1", "3h", "1"),
		"series: {count: 9, lastObservedTime: 2026-01-03T11:30:00.000000Z}": row("30m", "kubelet, node-1", "120m", "9"),
	})
}

func TestEventFields(t *testing.T) {
	f := coreEvent()
	obj, _ := kindtest.Decode(t, f.Kind, kindtest.Parse(t, f.Object))
	for name, want := range map[string]string{
		"involvedObject.kind": "Pod", "involvedObject.namespace": "ns", "involvedObject.name": "p",
		"reason": "Started", "source": "kubelet", "type": "Normal", "reportingComponent": "",
	} {
		if got := f.Kind.Fields[name](obj); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	e := obj.(*corev1.Event)
	if e.Source.Component, e.ReportingController = "", "r"; f.Kind.Fields["source"](e) != "r" {
		t.Error("the reporting controller is the source of events of the newer form")
	}
	if ttl := f.Kind.TTL(e); ttl != eventTTL {
		t.Errorf("kept for %v", ttl)
	}
}
