package replicaset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var now = time.Unix(100000, 0)

func set(replicas int32) *apps.ReplicaSet {
	return &apps.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a", Generation: 3},
		Spec: apps.ReplicaSetSpec{Replicas: &replicas, Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a", "v": "1"}}}},
	}
}

type option func(*v1.Pod)

func pod(name string, options ...option) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			Labels:            map[string]string{"app": "a", "v": "1"}},
		Spec:   v1.PodSpec{NodeName: "n1"},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	ready(time.Hour)(p)
	for _, o := range options {
		o(p)
	}
	return p
}

func ready(age time.Duration) option {
	return func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now.Add(-age))}}
	}
}
func unready(p *v1.Pod)           { p.Status.Conditions = nil }
func on(node string) option       { return func(p *v1.Pod) { p.Spec.NodeName = node } }
func in(phase v1.PodPhase) option { return func(p *v1.Pod) { p.Status.Phase = phase } }
func cost(c string) option {
	return func(p *v1.Pod) { p.Annotations = map[string]string{"controller.kubernetes.io/pod-deletion-cost": c} }
}
func restarted(n int32) option {
	return func(p *v1.Pod) { p.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: n}} }
}
func aged(age time.Duration) option {
	return func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-age)) }
}
func going(p *v1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }

func TestDeletedFirst(t *testing.T) {
	for name, tc := range map[string]struct{ first, second *v1.Pod }{
		"unscheduled before scheduled": {pod("z", on("")), pod("a", unready)},
		"pending before running":       {pod("z", in(v1.PodPending)), pod("a", unready)},
		"unready before ready":         {pod("z", unready, cost("100")), pod("a")},
		"cheap before dear":            {pod("z", cost("-5")), pod("a")},
		"crowded node first":           {pod("z", on("crowded"), ready(time.Hour)), pod("a", ready(time.Minute))},
		"ready for shorter first":      {pod("z", ready(time.Minute)), pod("a", restarted(9))},
		"more restarts first":          {pod("z", restarted(3)), pod("a", restarted(2), aged(time.Minute))},
		"younger first":                {pod("z", aged(time.Minute)), pod("a")},
		"same magnitude: by uid":       {pod("a", aged(61*time.Minute)), pod("z")},
	} {
		podsPerNode := map[string]int{"crowded": 3, "n1": 1}
		for _, order := range [][]*v1.Pod{{tc.first, tc.second}, {tc.second, tc.first}} {
			if got := rank(order, podsPerNode, now)[0]; got != tc.first {
				t.Errorf("%s: %s goes first", name, got.Name)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		o              observed
		create, remove int
	}{
		"from nothing":    {o: observed{set: set(3), expectationsMet: true}, create: 3},
		"as it should be": {o: observed{set: set(1), expectationsMet: true, pods: []*v1.Pod{pod("a")}}},
		"ended don't count": {o: observed{set: set(1), expectationsMet: true,
			pods: []*v1.Pod{pod("a", in(v1.PodFailed))}}, create: 1},
		"terminating don't": {o: observed{set: set(1), expectationsMet: true, pods: []*v1.Pod{pod("a", going)}},
			create: 1},
		"too many": {o: observed{set: set(1), expectationsMet: true,
			pods: []*v1.Pod{pod("a"), pod("b"), pod("c")}}, remove: 2},
		"to zero": {o: observed{set: set(0), expectationsMet: true, pods: []*v1.Pod{pod("a"), pod("b")}},
			remove: 2},
		"writes not yet seen":    {o: observed{set: set(3)}},
		"more than one burst":    {o: observed{set: set(2000), expectationsMet: true}, create: burst},
		"default is one replica": {o: observed{set: &apps.ReplicaSet{}, expectationsMet: true}, create: 1},
		"being deleted": {o: observed{expectationsMet: true, set: func() *apps.ReplicaSet {
			s := set(3)
			s.DeletionTimestamp = ptr.To(metav1.NewTime(now))
			return s
		}()}},
	} {
		tc.o.now, tc.o.related = now, always(tc.o.pods)
		p := decide(tc.o)
		if p.create != tc.create || len(p.delete) != tc.remove {
			t.Errorf("%s: create %d, delete %d; want %d, %d", name, p.create, len(p.delete), tc.create, tc.remove)
		}
	}
}

func always(pods []*v1.Pod) func() []*v1.Pod { return func() []*v1.Pod { return pods } }

// TestConverges: whatever the pods are, a few plans lead to the wanted number, and no further.
func TestConverges(t *testing.T) {
	for want := range int32(8) {
		for have := range 12 {
			var all []*v1.Pod
			for i := range have {
				options := [][]option{nil, {unready}, {in(v1.PodSucceeded)}, {going}}
				all = append(all, pod(fmt.Sprint("p", i), options[i%4]...))
			}
			for range 3 {
				p := decide(observed{set: set(want), pods: all, related: always(all),
					expectationsMet: true, now: now})
				for i := range p.create {
					all = append(all, pod(fmt.Sprint("new", i)))
				}
				for _, doomed := range p.delete {
					going(doomed)
				}
			}
			p := decide(observed{set: set(want), pods: all, related: always(all), expectationsMet: true, now: now})
			if p.create != 0 || len(p.delete) != 0 || p.status.Replicas != want {
				t.Fatalf("want %d from %d: %+v", want, have, p)
			}
		}
	}
}

func TestStatus(t *testing.T) {
	s := set(5)
	s.Spec.MinReadySeconds = 10
	bare := pod("bare", unready)
	bare.Labels = map[string]string{"app": "a"}
	p := decide(observed{set: s, expectationsMet: true, now: now, pods: []*v1.Pod{
		pod("old", ready(time.Minute)), pod("young", ready(4*time.Second)), bare, pod("going", going),
		pod("failed", in(v1.PodFailed)),
	}})
	want := apps.ReplicaSetStatus{Replicas: 3, FullyLabeledReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 1,
		ObservedGeneration: 3}
	got := p.status
	if got.TerminatingReplicas == nil || *got.TerminatingReplicas != 1 {
		t.Errorf("terminating: %v", got.TerminatingReplicas)
	}
	got.TerminatingReplicas = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("status %+v, want %+v", got, want)
	}
	if p.again != 6*time.Second {
		t.Errorf("looks again after %v, want 6s", p.again)
	}
}

func TestFailureCondition(t *testing.T) {
	s := withFailure(apps.ReplicaSetStatus{}, errors.New("quota"), true, now)
	if len(s.Conditions) != 1 || s.Conditions[0].Reason != "FailedCreate" || s.Conditions[0].Message != "quota" {
		t.Fatalf("%+v", s.Conditions)
	}
	if again := withFailure(s, errors.New("other"), true, now.Add(time.Hour)); again.Conditions[0].Message != "quota" {
		t.Errorf("an old failure was replaced: %+v", again.Conditions)
	}
	if healed := withFailure(s, nil, false, now); len(healed.Conditions) != 0 || len(s.Conditions) != 1 {
		t.Errorf("after success: %+v, before: %+v", healed.Conditions, s.Conditions)
	}
}
