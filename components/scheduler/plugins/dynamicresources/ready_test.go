package dynamicresources

import (
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/scheduler/queue"
	. "quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// TestReady: all conditions of all devices have to be true; one failure is enough to give up, and so is time.
func TestReady(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "M"}
	}
	for name, c := range map[string]struct {
		needs  []string
		has    []metav1.Condition
		age    time.Duration
		ready  bool
		failed bool
		gaveUp bool
	}{
		"needs nothing": {age: time.Hour, ready: true},
		"not told":      {needs: []string{"A"}},
		"true": {needs: []string{"A"}, has: []metav1.Condition{condition("A", "True")}, age: time.Hour,
			ready: true},
		"false":         {needs: []string{"A"}, has: []metav1.Condition{condition("A", "False")}},
		"one of two":    {needs: []string{"A", "B"}, has: []metav1.Condition{condition("A", "True")}},
		"not told ever": {needs: []string{"A"}, age: 2 * time.Minute, gaveUp: true},
		"failed":        {needs: []string{"A"}, has: []metav1.Condition{condition("F", "True")}, failed: true, gaveUp: true},
		"ready and lost": {needs: []string{"A"}, failed: true, gaveUp: true,
			has: []metav1.Condition{condition("A", "True"), condition("F", "True")}},
	} {
		claim := Allocated(ResourceClaim("x"), "r", "n", "d")
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: start.Add(-c.age)}
		result := &claim.Status.Allocation.Devices.Results[0]
		result.BindingConditions, result.BindingFailureConditions = c.needs, []string{"F"}
		if c.has != nil {
			claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: Driver, Pool: "other", Device: "d"},
				{Driver: Driver, Pool: "n", Device: "d", Conditions: c.has}}
		}
		is, err := ready(claim)
		if is != c.ready || (err != nil) != c.failed || gaveUp(claim, time.Minute, start) != c.gaveUp {
			t.Errorf("%s: %v, %v, gave up %v", name, is, err, gaveUp(claim, time.Minute, start))
		}
	}
	if is, err := ready(ResourceClaim("x")); is || err != nil {
		t.Errorf("not allocated: %v, %v", is, err)
	}
}

// TestHints: a claim helps the pod that waits for it, and pods that wait for devices when it gives them back.
func TestHints(t *testing.T) {
	f := plugin(nil)
	known := map[string]*resourcev1.ResourceClaim{"mine": ResourceClaim("mine")}
	f.Claim = func(_, name string) (*resourcev1.ResourceClaim, error) {
		if claim := known[name]; claim != nil {
			return claim, nil
		}
		return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaim"), name)
	}
	hints := queue.Hints{Name: f.Hints()}
	pod := snapshot.NewPod(Pod("p", "", Claiming("mine")))
	waits := snapshot.NewPod(Pod("p", "", Claiming("mine", "missing")))
	extended := snapshot.NewPod(Pod("q", "example.com/gpu=1", nil))
	allocated := func(name string) *resourcev1.ResourceClaim { return Allocated(ResourceClaim(name), "r", "n", "d") }
	plain := snapshot.NewPod(Pod("z", "cpu=1", nil))
	labelled := ResourceClaim("mine")
	labelled.Labels = map[string]string{"a": "b"}
	claim := func(old, now *resourcev1.ResourceClaim) queue.Event {
		if old == nil {
			return queue.Event{Kind: queue.ResourceClaimAdded, New: now}
		}
		return queue.Event{Kind: queue.ResourceClaimUpdated, Old: old, New: now}
	}
	for name, c := range map[string]struct {
		pod   *snapshot.Pod
		event queue.Event
		want  bool
	}{
		"its claim is new":          {pod, claim(nil, ResourceClaim("mine")), true},
		"another claim is new":      {pod, claim(nil, ResourceClaim("other")), false},
		"one is still missing":      {waits, claim(nil, ResourceClaim("mine")), false},
		"its status changed":        {pod, claim(ResourceClaim("mine"), allocated("mine")), true},
		"its labels changed":        {pod, claim(ResourceClaim("mine"), labelled), false},
		"another gave back":         {pod, claim(allocated("other"), ResourceClaim("other")), true},
		"for an extended resource":  {extended, claim(allocated("other"), ResourceClaim("other")), true},
		"another was allocated":     {pod, claim(ResourceClaim("other"), allocated("other")), false},
		"a slice":                   {pod, queue.Event{Kind: queue.ResourceSliceAdded}, true},
		"a class":                   {pod, queue.Event{Kind: queue.DeviceClassUpdated}, true},
		"a pod that had devices":    {pod, queue.Event{Kind: queue.PodRemoved, OldPod: extended}, true},
		"a pod that had none":       {pod, queue.Event{Kind: queue.PodRemoved, OldPod: plain}, false},
		"its statuses are complete": {pod, queue.Event{Kind: queue.OwnResourceClaims, Pod: pod}, true},
		"its statuses are not":      {waits, queue.Event{Kind: queue.OwnResourceClaims, Pod: waits}, false},
		"a taint of a node":         {pod, queue.Event{Kind: queue.NodeTaints}, false},
	} {
		if got := hints.Helps(c.pod, []string{Name}, c.event); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if f.Gated(pod) != "" || f.Gated(waits) == "" || f.Gated(extended) != "" {
		t.Error("the gate keeps the wrong pods")
	}
}
