package score

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	pods   = resource{version: "v1", name: "pods", kind: "Pod"}
	events = resource{version: "v1", name: "events", kind: "Event"}
	begun  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// podText is a pod as the API server encodes it; more is further content.
func podText(name, uid string, version int, age time.Duration, more string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"n","uid":%q,`+
		`"resourceVersion":"%d","creationTimestamp":%q,"managedFields":[{"manager":"me","operation":"Update",`+
		`"time":"2026-01-01T00:00:0%dZ","fieldsV1":{"f:spec":{}}}]}%s}`, name, uid, version,
		begun.Add(-age).Format(time.RFC3339), version, more))
}

func summary(entries []Entry) string {
	var out []string
	for _, e := range entries {
		text := string(e.Verb) + " " + e.Object.Name + " by " + e.writers()
		if e.Missed {
			text += " missed"
		}
		if e.Why != "" {
			text += ": " + e.Why
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func TestHistoryOfAPod(t *testing.T) {
	h := newHistory(begun)
	see := func(kind string, raw json.RawMessage) string {
		t.Helper()
		entries, err := h.seen(pods, kind, raw)
		if err != nil {
			t.Fatal(err)
		}
		return summary(entries)
	}
	if first, err := h.listed(pods, []json.RawMessage{podText("old", "1", 1, time.Hour, "")}, false); err != nil ||
		first != nil {
		t.Errorf("what was there before is %v, %v", first, err)
	}
	for i, c := range []struct {
		kind string
		raw  json.RawMessage
		want string
	}{
		{"ADDED", podText("a", "2", 2, 0, `,"spec":{"schedulerName":"default-scheduler"}`), "create a by me"},
		{"ADDED", podText("a", "2", 2, 0, ""), ""}, // again, after a list
		{"MODIFIED", json.RawMessage(strings.Replace(string(podText("a", "2", 3, 0,
			`,"spec":{"schedulerName":"default-scheduler","nodeName":"node-1"}`)), "00:00:03Z", "00:00:02Z", 1)),
			"update a by kube-scheduler/binding: bound to node-1"},
		{"MODIFIED", podText("a", "2", 4, 0, `,"spec":{"nodeName":"node-1"},"status":{"phase":"Running","conditions":[`+
			`{"type":"Ready","status":"False","reason":"NotReady","message":"starts"}]}`),
			"update a by me: Ready=False (NotReady): starts; phase Running"},
		{"DELETED", podText("a", "2", 5, 0, ""), "delete a by kube-apiserver"},
		{"MODIFIED", podText("old", "1", 6, time.Hour, `,"spec":{"x":1}`), "update old by me"},
	} {
		if got := see(c.kind, c.raw); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
}

// TestListAfterALostWatch: what was missed is found, and marked.
func TestListAfterALostWatch(t *testing.T) {
	h := newHistory(begun)
	list := func(items ...json.RawMessage) string {
		t.Helper()
		entries, err := h.listed(pods, items, false)
		if err != nil {
			t.Fatal(err)
		}
		return summary(entries)
	}
	list(podText("kept", "1", 1, 0, ""), podText("changed", "2", 1, 0, ""), podText("again", "3", 1, 0, ""),
		podText("gone", "4", 1, 0, ""))
	got := list(podText("kept", "1", 1, 0, ""), podText("changed", "2", 2, 0, `,"spec":{"x":1}`),
		podText("again", "5", 2, 0, ""), podText("new", "6", 2, 0, ""))
	want := "update changed by me missed\ndelete again by kube-apiserver missed\ncreate again by me missed\n" +
		"create new by me missed\ndelete gone by kube-apiserver missed"
	if got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
}

// TestTypeFieldsAreNoChange: the items of a list have no apiVersion and kind, the objects of a watch have them. An
// update tells neither, whichever of the two comes first.
func TestTypeFieldsAreNoChange(t *testing.T) {
	item := func(version int, more string) json.RawMessage {
		return json.RawMessage(strings.Replace(string(podText("a", "1", version, 0, more)), `"apiVersion":"v1","kind":"Pod",`,
			"", 1))
	}
	h := newHistory(begun)
	entries, err := h.listed(pods, []json.RawMessage{item(1, "")}, false)
	if err != nil || entries != nil {
		t.Fatalf("%v, %v", entries, err)
	}
	expect := func(entries []Entry, err error, want string) {
		t.Helper()
		if err != nil || len(entries) != 1 || fmt.Sprint(entries[0].Fields) != want || entries[0].MoreFields != 0 {
			t.Errorf("%+v, %v; want one entry with %s", entries, err, want)
		}
		if len(entries) == 1 && (entries[0].Object.Kind != "Pod" || entries[0].writers() != "me") {
			t.Errorf("it is about %v, by %s", entries[0].Object, entries[0].writers())
		}
	}
	entries, err = h.seen(pods, "MODIFIED", podText("a", "1", 2, 0, `,"spec":{"x":1}`))
	expect(entries, err, "[{spec.x  1}]")
	entries, err = h.listed(pods, []json.RawMessage{item(3, `,"spec":{"x":2}`)}, false) // after a lost watch
	expect(entries, err, "[{spec.x 1 2}]")
	entries, err = h.seen(pods, "MODIFIED", podText("a", "1", 4, 0, `,"spec":{"x":3}`))
	expect(entries, err, "[{spec.x 2 3}]")
}

func TestResourceThatComesLater(t *testing.T) {
	h := newHistory(begun)
	entries, err := h.listed(pods, []json.RawMessage{podText("old", "1", 1, time.Hour, ""), podText("new", "2", 2, 0,
		"")}, true)
	if got := summary(entries); err != nil || got != "create new by me missed" {
		t.Errorf("%s, %v", got, err)
	}
}

func eventText(name string, version, count int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"n","uid":"e-%s","resourceVersion":"%d"},`+
		`"involvedObject":{"apiVersion":"apps/v1","kind":"ReplicaSet","namespace":"n","name":"web","uid":"7"},`+
		`"reason":"Made","message":"a pod","count":%d,"source":{"component":"default-scheduler"}}`, name, name, version,
		count))
}

func TestEventsAreAboutTheirObjects(t *testing.T) {
	h := newHistory(begun)
	if first, err := h.listed(events, []json.RawMessage{eventText("before", 1, 1)}, false); err != nil || first != nil {
		t.Errorf("%v, %v", first, err)
	}
	entries, err := h.seen(events, "ADDED", eventText("e", 2, 1))
	if err != nil || len(entries) != 1 || entries[0].Object != (Object{"apps", "ReplicaSet", "n", "web", "7"}) ||
		summary(entries) != "event web by kube-scheduler: Made: a pod" {
		t.Errorf("%+v, %v", entries, err)
	}
	if entries, err := h.seen(events, "DELETED", eventText("e", 3, 1)); err != nil || entries != nil {
		t.Errorf("an event that expires is %v, %v", entries, err)
	}
	entries, err = h.listed(events, []json.RawMessage{eventText("before", 4, 2), eventText("other", 5, 1)}, false)
	if want := "event web by kube-scheduler missed: Made: a pod (2 times)\nevent web by kube-scheduler missed: Made: a " +
		"pod"; err != nil ||
		summary(entries) != want {
		t.Errorf("%s, %v", summary(entries), err)
	}
}

func TestTerminating(t *testing.T) {
	h := newHistory(begun)
	if _, err := h.listed(pods, []json.RawMessage{podText("a", "1", 1, 0, "")}, false); err != nil {
		t.Fatal(err)
	}
	raw := strings.Replace(string(podText("a", "1", 1, 0, "")), `"resourceVersion":"1"`,
		`"resourceVersion":"2","deletionTimestamp":"2026-01-01T00:00:09Z","finalizers":["example.org/f"]`, 1)
	entries, err := h.seen(pods, "MODIFIED", json.RawMessage(raw))
	if want := "terminate a by kube-apiserver: deletion requested; the API does not tell which client did, finalizers " +
		"example.org/f"; err != nil ||
		summary(entries) != want {
		t.Errorf("%s, %v", summary(entries), err)
	}
}
