package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func TestAssumeConfirmForget(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", "cpu=1"), schedulertest.Node("b", "cpu=1"))
	obj := schedulertest.Pod("p", "cpu=1", nil)
	s.Assume(snapshot.NewPod(obj), "a")
	if got := s.Node("a").Requested.CPU; got != 1000 {
		t.Fatalf("assumed pod takes %dm", got)
	}
	if !s.Forget("p") || s.Node("a").Requested.CPU != 0 || len(s.Node("a").Pods) != 0 {
		t.Fatalf("forgotten pod is still there: %+v", s.Node("a"))
	}
	s.Assume(snapshot.NewPod(obj), "a")
	bound := obj.DeepCopy()
	bound.Spec.NodeName = "b"
	s.SetPod(snapshot.NewPod(bound)) // elsewhere than assumed
	if s.Node("a").Requested.CPU != 0 || s.Node("b").Requested.CPU != 1000 {
		t.Fatal("the pod is not where it was bound")
	}
	if s.Forget("p") {
		t.Fatal("a confirmed pod was forgotten")
	}
}

func TestPodsBeforeTheirNode(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Pod("p", "node=a cpu=1", nil))
	if len(s.Nodes()) != 0 || s.Node("a") != nil {
		t.Fatal("a node without an object is listed")
	}
	s.SetNode(schedulertest.Node("a", "cpu=2"))
	if got := s.Node("a").Requested.CPU; got != 1000 {
		t.Fatalf("requested %d", got)
	}
	s.RemoveNode("a")
	if len(s.Nodes()) != 0 {
		t.Fatal("a removed node is listed")
	}
	s.RemovePod("p")
	s.SetNode(schedulertest.Node("a", "cpu=2"))
	if got := s.Node("a").Requested.CPU; got != 0 {
		t.Fatalf("requested %d after the pod went", got)
	}
}

func TestZonesAlternate(t *testing.T) {
	s := snapshot.New()
	for name, zone := range map[string]string{"n1": "a", "n2": "a", "n3": "a", "n4": "b", "n5": "c"} {
		n := schedulertest.Node(name, "")
		n.Labels[v1.LabelTopologyZone] = zone
		s.SetNode(n)
	}
	var order []string
	for i, n := range s.Nodes() {
		order = append(order, n.Name)
		if n.Index != i {
			t.Errorf("%s has index %d at %d", n.Name, n.Index, i)
		}
	}
	if want := []string{"n1", "n4", "n5", "n2", "n3"}; !reflect.DeepEqual(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
}

func TestColumnsFollowLabels(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", "zone=1"), schedulertest.Node("b", ""))
	c := s.Column("zone")
	if !reflect.DeepEqual(c.Values, []string{"1"}) || c.Of[0] != 0 || c.Of[1] != -1 {
		t.Fatalf("column %+v", c)
	}
	s.SetNode(schedulertest.Node("b", "zone=2"))
	if c := s.Column("zone"); len(c.Values) != 2 {
		t.Fatalf("column after the label came: %+v", c)
	}
}

// TestChurn compares the sums after many changes with those of the pods that are left.
func TestChurn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := snapshot.New()
	left := map[types.UID]*v1.Pod{}
	for i := range 3000 {
		node := fmt.Sprintf("n%d", r.IntN(5))
		switch r.IntN(6) {
		case 0:
			s.SetNode(schedulertest.Node(node, "cpu=100 zone="+fmt.Sprint(r.IntN(2))))
		case 1:
			s.RemoveNode(node)
		case 2:
			for uid := range left {
				s.RemovePod(uid)
				delete(left, uid)
				break
			}
		default:
			p := schedulertest.Pod(fmt.Sprintf("p%d", i%40),
				fmt.Sprintf("node=%s cpu=%dm app=%d port=%d", node, r.IntN(500), r.IntN(3), 1+r.IntN(9)), nil)
			left[p.UID] = p
			s.SetPod(snapshot.NewPod(p))
		}
	}
	cpu, pods, classes := map[string]int64{}, map[string]int{}, map[string]int{}
	for _, p := range left {
		cpu[p.Spec.NodeName] += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		pods[p.Spec.NodeName]++
		classes[p.Labels["app"]]++
	}
	for _, n := range s.Nodes() {
		if n.Requested.CPU != cpu[n.Name] || len(n.Pods) != pods[n.Name] || len(n.Ports) != pods[n.Name] {
			t.Errorf("%s: %dm by %d pods with %d ports, want %dm by %d", n.Name, n.Requested.CPU, len(n.Pods),
				len(n.Ports), cpu[n.Name], pods[n.Name])
		}
	}
	s.ClassesIn("default", func(c *snapshot.Class) {
		total := 0
		for _, on := range c.On {
			total += on
		}
		if total != classes[c.Labels["app"]] {
			t.Errorf("class %v has %d pods, want %d", c.Labels, total, classes[c.Labels["app"]])
		}
	})
}

// TestCloneInto has a second clone in the memory of a first one: neither the first's pods nor the node change.
func TestCloneInto(t *testing.T) {
	pod := func(uid string) *snapshot.Pod {
		p := schedulertest.Pod(uid, "cpu=1 port=80", nil)
		p.UID = types.UID(uid)
		return snapshot.NewPod(p)
	}
	first, second, clone := &snapshot.Node{Name: "a"}, &snapshot.Node{Name: "b"}, &snapshot.Node{}
	first.Add(pod("1"))
	first.Add(pod("2"))
	second.Add(pod("3"))
	first.CloneInto(clone)
	clone.Remove("1")
	second.CloneInto(clone)
	clone.Add(pod("4"))
	if len(first.Pods) != 2 || first.Pods[0].UID() != "1" || first.Requested.CPU != 2000 || len(first.Ports) != 2 {
		t.Errorf("the first node is changed: %+v", first)
	}
	if len(second.Pods) != 1 || len(second.Ports) != 1 {
		t.Errorf("the second node is changed: %+v", second)
	}
	if clone.Name != "b" || len(clone.Pods) != 2 || clone.Pods[0].UID() != "3" || len(clone.Ports) != 2 {
		t.Errorf("clone %+v", clone)
	}
}
