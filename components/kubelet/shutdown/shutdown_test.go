package shutdown

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestPeriods(t *testing.T) {
	byPriority := []kubeletconfig.ShutdownGracePeriodByPodPriority{
		{Priority: 1000, ShutdownGracePeriodSeconds: 2}, {Priority: 0, ShutdownGracePeriodSeconds: 7},
	}
	for name, test := range map[string]struct {
		total, critical time.Duration
		byPriority      []kubeletconfig.ShutdownGracePeriodByPodPriority
		want            []Period
	}{
		"none": {},
		"a part for critical pods": {total: 30 * time.Second, critical: 10 * time.Second,
			want: []Period{{0, 20 * time.Second}, {criticalPriority, 10 * time.Second}}},
		"by priority": {byPriority: byPriority, want: []Period{{0, 7 * time.Second}, {1000, 2 * time.Second}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Periods(test.total, test.critical, test.byPriority); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func newPod(name string, priority int32) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{Priority: &priority}}
}

func TestGroup(t *testing.T) {
	periods := []Period{{0, 1}, {100, 1}, {criticalPriority, 1}}
	for priority, want := range map[int32]int{-5: 0, 0: 0, 99: 0, 100: 1, 5000: 1, criticalPriority: 2,
		criticalPriority + 1000: 2} {
		for i, pods := range group([]*v1.Pod{newPod("p", priority)}, periods) {
			if (len(pods) == 1) != (i == want) {
				t.Errorf("priority %d: %d pods in period %d, want it in %d", priority, len(pods), i, want)
			}
		}
	}
	if got := group([]*v1.Pod{{}}, periods); len(got[0]) != 1 {
		t.Errorf("a pod without priority: %v", got)
	}
}

// fakePods end when they are told to.
type fakePods struct {
	mu         sync.Mutex
	active     []*v1.Pod
	terminated []string
	stubborn   map[types.UID]bool
	told       chan string
}

func (f *fakePods) Active() []*v1.Pod { return f.active }

func (f *fakePods) Terminate(pod *v1.Pod, grace time.Duration) {
	f.mu.Lock()
	f.terminated = append(f.terminated, pod.Name+" "+grace.String())
	f.mu.Unlock()
	f.told <- pod.Name
}

func (f *fakePods) Ended(uid types.UID) bool { return !f.stubborn[uid] }

func TestRunEndsPodsInOrder(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	pods := &fakePods{active: []*v1.Pod{newPod("critical", criticalPriority), newPod("plain", 0)},
		stubborn: map[types.UID]bool{"plain": true}, told: make(chan string, 2)}
	var events []string
	changed := 0
	m := New(Config{Periods: []Period{{0, 20 * time.Second}, {criticalPriority, 10 * time.Second}}, Pods: pods,
		Clock: clock, Event: func(_, reason, _ string) { events = append(events, reason) }, Changed: func() { changed++ }})
	if m.Err() != nil {
		t.Errorf("before: %v", m.Err())
	}
	done := make(chan struct{})
	go func() { m.Run(context.Background()); close(done) }()
	if first := <-pods.told; first != "plain" {
		t.Fatalf("%s ends first", first)
	}
	for !clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	if m.Err() == nil {
		t.Error("the node is ready while it shuts down")
	}
	select {
	case name := <-pods.told:
		t.Fatalf("%s ends before the first had its time", name)
	default:
	}
	clock.Step(20 * time.Second)
	<-done
	want := []string{"plain 20s", "critical 10s"}
	if !reflect.DeepEqual(pods.terminated, want) || !reflect.DeepEqual(events, []string{"Shutdown"}) || changed != 1 {
		t.Errorf("got %v, events %v, changed %d", pods.terminated, events, changed)
	}
}

func TestRunWithoutPeriods(t *testing.T) {
	m := New(Config{})
	m.Run(context.Background())
	if m.Err() != nil {
		t.Error(m.Err())
	}
}
