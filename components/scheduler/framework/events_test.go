package framework

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

type namedPlugin struct{}

func (namedPlugin) Name() string { return "Named" }

// registers is a plug-in that registers events.
type registers struct {
	namedPlugin
	events []fwk.ClusterEventWithHint
	err    error
}

func (r registers) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return r.events, r.err
}

func newTestHandle() *Handle { return NewHandle(&Services{}, "test", nil) }

func on(resource fwk.EventResource, action fwk.ActionType, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
	return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: resource, ActionType: action}, QueueingHintFn: hint}
}

// TestHintKinds: an event of upstream's is all of ours that its actions stand for, and no other.
func TestHintKinds(t *testing.T) {
	for name, c := range map[string]struct {
		event fwk.ClusterEventWithHint
		want  queue.Kind
	}{
		"nodes that come": {on(fwk.Node, fwk.Add, nil), queue.NodeAdded},
		"nodes that go":   {on(fwk.Node, fwk.Delete, nil), queue.NodeRemoved},
		"labels of nodes": {on(fwk.Node, fwk.UpdateNodeLabel, nil), queue.NodeLabels},
		"taints of nodes": {on(fwk.Node, fwk.UpdateNodeTaint, nil), queue.NodeTaints},
		"two of nodes": {on(fwk.Node, fwk.Add|fwk.UpdateNodeAllocatable, nil),
			queue.NodeAdded | queue.NodeAllocatable},
		"pods that go":     {on(fwk.Pod, fwk.Delete, nil), queue.PodRemoved},
		"labels of pods":   {on(fwk.Pod, fwk.UpdatePodLabel, nil), queue.PodLabels | queue.OwnLabels},
		"pods that shrink": {on(fwk.Pod, fwk.UpdatePodScaleDown, nil), queue.PodShrunk | queue.OwnRequests},
		"gates of the pod": {on(fwk.Pod, fwk.UpdatePodSchedulingGatesEliminated, nil), queue.OwnGates},
		"no action":        {on(fwk.Node, 0, nil), 0},
		"all":              {on(fwk.WildCard, fwk.All, nil), allKinds | queue.Watched},
		"another resource": {on(fwk.StorageClass, fwk.Add, nil), queue.Watched},
		"one by its name":  {on("widgets.v1.example.com", fwk.Add, nil), queue.Watched},
	} {
		hints, err := newTestHandle().hints(t.Context(), registers{events: []fwk.ClusterEventWithHint{c.event}})
		if err != nil || len(hints) != 1 || hints[0].Kinds != c.want {
			t.Errorf("%s: got %+v, %v; want %v", name, hints, err, c.want)
		}
	}
	if hints, err := newTestHandle().hints(t.Context(), namedPlugin{}); err != nil || len(hints) != 1 ||
		hints[0].Kinds != allKinds || hints[0].Helps != nil {
		t.Errorf("a plug-in that registers nothing: %+v, %v", hints, err)
	}
	_, err := newTestHandle().hints(t.Context(),
		registers{events: []fwk.ClusterEventWithHint{on("widgets", fwk.Add, nil)}})
	if err == nil || !strings.Contains(err.Error(), `"widgets"`) {
		t.Errorf("a resource that is not known: %v", err)
	}
	if _, err := newTestHandle().hints(t.Context(), registers{err: errors.New("no")}); err == nil {
		t.Error("a plug-in that fails is taken for one that registers nothing")
	}
}

// TestWatchedResources are watched once each, and wake pods for the actions that were registered.
func TestWatchedResources(t *testing.T) {
	h := newTestHandle()
	hints, err := h.hints(t.Context(), registers{events: []fwk.ClusterEventWithHint{
		on(fwk.StorageClass, fwk.Add|fwk.Update, nil),
		on(fwk.StorageClass, fwk.Delete, nil),
		on("widgets.v1.example.com", fwk.Add, func(_ klog.Logger, _ *v1.Pod, _, now any) (fwk.QueueingHint, error) {
			if now == "good" {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	watched := h.services.Watched()
	if len(watched) != 2 || watched[0].Resource != "storageclasses" || !watched[0].Typed ||
		watched[1].Resource != "widgets" || watched[1].Group != "example.com" || watched[1].Typed {
		t.Errorf("watched are %+v", watched)
	}
	classes, widgets := string(fwk.StorageClass), "widgets.v1.example.com"
	for name, c := range map[string]struct {
		event queue.Event
		want  []bool
	}{
		"added":       {queue.Event{Resource: classes, Action: Added}, []bool{true, false, false}},
		"updated":     {queue.Event{Resource: classes, Action: Updated}, []bool{true, false, false}},
		"removed":     {queue.Event{Resource: classes, Action: Removed}, []bool{false, true, false}},
		"good widget": {queue.Event{Resource: widgets, Action: Added, New: "good"}, []bool{false, false, true}},
		"bad widget":  {queue.Event{Resource: widgets, Action: Added, New: "bad"}, []bool{false, false, false}},
		"widget gone": {queue.Event{Resource: widgets, Action: Removed, New: "good"}, []bool{false, false, false}},
	} {
		for i, hint := range hints {
			if got := hint.Helps(snapshot.NewPod(&v1.Pod{}), c.event); got != c.want[i] {
				t.Errorf("%s: hint %d helps: %t", name, i, got)
			}
		}
	}
}

// TestHelps: a hint gets the objects of the event, and one that fails lets the pod be tried.
func TestHelps(t *testing.T) {
	h := newTestHandle()
	if h.helps(nil) != nil {
		t.Error("no hint became one")
	}
	node := func(name string) *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	pod := func(name string) *snapshot.Pod {
		return snapshot.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	nameOf := func(obj any) string {
		if obj == nil {
			return ""
		}
		return obj.(metav1.Object).GetName()
	}
	for name, c := range map[string]struct {
		event    queue.Event
		old, now string
	}{
		"node added":   {queue.Event{Node: node("b")}, "", "b"},
		"node changed": {queue.Event{OldNode: node("a"), Node: node("b")}, "a", "b"},
		"node removed": {queue.Event{OldNode: node("a")}, "a", ""},
		"pod added":    {queue.Event{Pod: pod("b")}, "", "b"},
		"pod changed":  {queue.Event{OldPod: pod("a"), Pod: pod("b")}, "a", "b"},
		"pod removed":  {queue.Event{OldPod: pod("a")}, "a", ""},
		"another":      {queue.Event{Old: node("a"), New: node("b")}, "a", "b"},
	} {
		var old, now any
		for _, answer := range []struct {
			hint fwk.QueueingHint
			err  error
			want bool
		}{{fwk.Queue, nil, true}, {fwk.QueueSkip, nil, false}, {fwk.QueueSkip, errors.New("no"), true}} {
			helps := h.helps(func(_ klog.Logger, _ *v1.Pod, o, n any) (fwk.QueueingHint, error) {
				old, now = o, n
				return answer.hint, answer.err
			})
			if got := helps(pod("waiting"), c.event); got != answer.want {
				t.Errorf("%s: %v helps: %t", name, answer, got)
			}
		}
		if nameOf(old) != c.old || nameOf(now) != c.now {
			t.Errorf("%s: the hint got %v and %v", name, old, now)
		}
	}
}
