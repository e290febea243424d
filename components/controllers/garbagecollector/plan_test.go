package garbagecollector

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		f    facts
		want string
	}{
		"no owners":   {facts{}, "{[] false }"},
		"owner stays": {facts{owners: map[types.UID]standing{"a": solid}}, "{[] false }"},
		"owner gone":  {facts{owners: map[types.UID]standing{"a": dangling}}, "{[] false Background}"},
		"one of two gone": {facts{owners: map[types.UID]standing{"a": dangling, "b": solid}},
			"{[a] false }"},
		"one of two waits": {facts{owners: map[types.UID]standing{"a": waiting, "b": solid}},
			"{[a] false }"},
		"owner waits": {facts{owners: map[types.UID]standing{"a": waiting}}, "{[] false Background}"},
		"owner waits, has dependents": {facts{owners: map[types.UID]standing{"a": waiting}, dependents: true},
			"{[] false Foreground}"},
		"circle of waiting": {facts{owners: map[types.UID]standing{"a": waiting}, dependents: true,
			waitingDependents: true}, "{[] true Foreground}"},
		"orphan finalizer": {facts{owners: map[types.UID]standing{"a": dangling}, orphan: true},
			"{[] false Orphan}"},
		"foreground finalizer": {facts{owners: map[types.UID]standing{"a": dangling}, foreground: true},
			"{[] false Foreground}"},
	} {
		if got := fmt.Sprint(decide(tc.f)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func thing(uid string, owners ...string) *object {
	o := &object{uid: types.UID(uid), name: uid, namespace: "ns",
		kind: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"}}
	for _, owner := range owners {
		o.owners = append(o.owners, metav1.OwnerReference{APIVersion: "g/v1", Kind: "Thing", Name: owner,
			UID: types.UID(owner), BlockOwnerDeletion: ptr.To(true)})
	}
	return o
}

func going(o *object) *object {
	o.deleted, o.foreground = true, true
	return o
}

func wantTasks(t *testing.T, step string, got []task, want ...string) {
	t.Helper()
	var names []string
	for _, g := range got {
		name := string(g.uid)
		if g.orphan {
			name += "!"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("%s: tasks %v, want %v", step, names, want)
	}
}

func TestGraph(t *testing.T) {
	g := newGraph()
	wantTasks(t, "dependent before its owner", g.put(thing("child", "parent")), "child")
	if g.ownersConfirmed(g.get("child")) {
		t.Error("settled without the owner")
	}
	wantTasks(t, "owner", g.put(thing("parent")))
	if !g.ownersConfirmed(g.get("child")) {
		t.Error("not settled with the owner")
	}
	wantTasks(t, "nothing new", g.put(thing("child", "parent")))
	wantTasks(t, "second", g.put(thing("other", "parent")), "other")
	wantTasks(t, "owner waits", g.put(going(thing("parent"))), "child", "other", "parent")
	if g.ownersConfirmed(g.get("child")) {
		t.Error("settled with an owner that waits")
	}
	wantTasks(t, "blocks no longer", g.put(thing("other")), "parent")
	wantTasks(t, "dependent gone", g.remove("child"), "parent")
	wantTasks(t, "owner gone", g.remove("parent"))
	wantTasks(t, "gone twice", g.remove("parent"))

	letting := thing("p2")
	letting.deleted, letting.orphan = true, true
	wantTasks(t, "orphan", g.put(letting), "p2!")
	wantTasks(t, "owner gone before its dependent was seen", g.remove("p2"))
	wantTasks(t, "late dependent", g.put(thing("late", "p2")), "late")

	elsewhere := thing("far")
	elsewhere.namespace = "elsewhere"
	g.put(elsewhere)
	g.put(thing("mixed", "far"))
	if g.ownersConfirmed(g.get("mixed")) {
		t.Error("an owner in another namespace counts")
	}
	shared := thing("cluster")
	shared.namespace = ""
	g.put(shared)
	g.put(thing("scoped", "cluster"))
	if !g.ownersConfirmed(g.get("scoped")) {
		t.Error("a cluster-scoped owner doesn't count")
	}
}

func TestGraphForgetsLinks(t *testing.T) {
	g := newGraph()
	g.put(thing("a", "x", "y"))
	g.put(thing("a", "y"))
	g.remove("a")
	if len(g.objects) != 0 || len(g.dependents) != 0 {
		t.Errorf("left: %v %v", g.objects, g.dependents)
	}
	o := thing("b", "x")
	o.resource = schema.GroupVersionResource{Resource: "things"}
	g.put(o)
	g.drop(o.resource)
	if len(g.objects) != 0 || len(g.dependents) != 0 {
		t.Errorf("left after drop: %v %v", g.objects, g.dependents)
	}
}
