package pods

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// nodeOf is a node with that much CPU.
func nodeOf(cpu string) *v1.Node {
	return &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourcePods: resource.MustParse("100"),
	}}}
}

// claimant returns a pod that requests the CPU, with its allocation.
func claimant(uid types.UID, cpu string) (*v1.Pod, standing) {
	pod := sized(cpu, "1Mi")
	pod.UID, pod.Name, pod.Generation = uid, string(uid), 1
	return pod, standing{allocation: allocationOf(pod)}
}

// Concurrent admissions do not exceed the node's allocatable resources.
func TestPlacesAreGivenOnce(t *testing.T) {
	a, admitted := newAdmission(), atomic.Int32{}
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			pod, asks := claimant(types.UID(fmt.Sprint("p", i)), "1")
			if why := a.admit(pod, asks, nodeOf("3")); why == nil {
				admitted.Add(1)
			} else if why.reason != "OutOfcpu" {
				t.Errorf("refused for %s", why.reason)
			}
		})
	}
	wait.Wait()
	if got := admitted.Load(); got != 3 || len(a.others("")) != 3 {
		t.Errorf("%d pods were admitted, %d count", got, len(a.others("")))
	}
}

// What a pod grows by is allocated once, counts from then on, and waits for others to give it back.
func TestResizeIsAllocatedOnce(t *testing.T) {
	a, node, now := newAdmission(), nodeOf("3"), time.Unix(1000, 0)
	for _, uid := range []types.UID{"a", "b"} {
		pod, has := claimant(uid, "1")
		a.adopt(pod, has)
	}
	for _, uid := range []types.UID{"a", "b"} { // there is room for one of them
		if pod, _ := claimant(uid, "2"); !a.update(pod, true) {
			t.Errorf("nothing to decide for %s", uid)
		}
	}
	if changed := a.resize(node, now); len(changed) != 2 {
		t.Errorf("decided about %v", changed)
	}
	if changed := a.resize(node, now); len(changed) != 0 {
		t.Errorf("decided again about %v", changed)
	}
	first, _ := a.standing("a")
	second, _ := a.standing("b")
	if first.granted == nil || first.pending != nil || second.granted != nil ||
		second.pending.Reason != v1.PodReasonDeferred {
		t.Fatalf("%+v, %+v", first, second)
	}
	if got := a.deferred(); len(got) != 1 || got[0] != "b" {
		t.Errorf("deferred: %v", got)
	}
	late, has := claimant("c", "1")
	if why := a.admit(late, has, node); why == nil {
		t.Error("what was allocated was given away")
	}
	a.release("a")
	if changed := a.resize(node, now); len(changed) != 1 || changed[0] != "b" {
		t.Errorf("decided about %v", changed)
	}
	if _, ok := a.standing("a"); ok {
		t.Error("a pod that left has a place")
	}
	if pod, _ := claimant("a", "1"); a.update(pod, true) || len(a.others("b")) != 0 {
		t.Error("an update brought a pod back that left")
	}
}

// Resizes of terminating pods are not decided, and infeasible ones are not decided again.
func TestResizesThatAreNotDecided(t *testing.T) {
	a, node, now := newAdmission(), nodeOf("3"), time.Unix(1000, 0)
	pod, has := claimant("a", "1")
	a.adopt(pod, has)
	if wants, _ := claimant("a", "2"); a.update(wants, false) || len(a.resize(node, now)) != 0 {
		t.Error("decided about a pod that is ending")
	}
	wants, _ := claimant("a", "9")
	if !a.update(wants, true) || len(a.resize(node, now)) != 1 {
		t.Error("not decided")
	}
	if a.update(wants, true) {
		t.Error("to be decided again")
	}
	if a.update(pod, true) {
		t.Error("asks for what it has")
	}
	if got, _ := a.standing("a"); got.pending != nil {
		t.Errorf("pending: %+v", got.pending)
	}
}
