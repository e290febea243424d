package deployment

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// world plays API server, ReplicaSet controller, scheduler and kubelet for one deployment: pods of a set appear,
// become available and go one by one, in any order that the seed makes.
type world struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	d      *apps.Deployment
	sets   []*apps.ReplicaSet
	broken string // image whose pods never become available
	uids   int
}

func newWorld(t *testing.T, seed uint64, replicas int32, strategy apps.DeploymentStrategy) *world {
	return &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(10000, 0),
		d: &apps.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "d", Generation: 1},
			Spec: apps.DeploymentSpec{
				Replicas: &replicas, Strategy: strategy,
				Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				RevisionHistoryLimit:    ptr.To[int32](2),
				ProgressDeadlineSeconds: ptr.To[int32](600),
				Template: v1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
					Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "v1"}}},
				},
			},
		},
	}
}

func rolling(surge, unavailable intstr.IntOrString) apps.DeploymentStrategy {
	return apps.DeploymentStrategy{Type: apps.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &apps.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}}
}

func (w *world) image(image string) {
	w.d.Spec.Template.Spec.Containers[0].Image = image
	w.d.Generation++
}

func (w *world) scale(to int32) {
	w.d.Spec.Replicas = &to
	w.d.Generation++
}

// reconcile applies one plan and tells whether it did anything.
func (w *world) reconcile() bool {
	running := map[types.UID]int{}
	for _, set := range w.sets {
		running[set.UID] = int(set.Status.Replicas)
	}
	p := decide(observed{deployment: w.d, sets: w.sets, running: running, now: w.now})
	busy := p.create != nil || len(p.update) > 0 || len(p.delete) > 0
	if p.create != nil {
		for _, set := range w.sets {
			if set.Name == p.create.Name {
				w.t.Fatalf("set %s made twice", set.Name)
			}
		}
		w.uids++
		set := p.create.DeepCopy()
		set.UID = types.UID(fmt.Sprint("rs", w.uids))
		set.Generation = 1
		set.CreationTimestamp = metav1.NewTime(w.now)
		w.sets = append(w.sets, set)
	}
	for _, changed := range p.update {
		for i, set := range w.sets {
			if set.UID == changed.UID {
				w.sets[i] = changed.DeepCopy()
				if *set.Spec.Replicas != *changed.Spec.Replicas {
					w.sets[i].Generation++
				}
			}
		}
	}
	for _, gone := range p.delete {
		for i, set := range w.sets {
			if set.UID == gone.UID {
				w.sets = append(w.sets[:i], w.sets[i+1:]...)
				break
			}
		}
	}
	if w.d.Annotations == nil {
		w.d.Annotations = map[string]string{}
	}
	w.d.Annotations[RevisionAnnotation] = p.revision
	w.d.Status = p.status
	return busy
}

// advance moves one set by one pod and tells whether there was anything to move.
func (w *world) advance() bool {
	w.now = w.now.Add(time.Second)
	for _, i := range w.random.Perm(len(w.sets)) {
		set := w.sets[i]
		set.Status.ObservedGeneration = set.Generation
		s := &set.Status
		s.TerminatingReplicas = ptr.To[int32](0)
		switch {
		case s.Replicas < *set.Spec.Replicas:
			s.Replicas++
			return true
		case s.Replicas > *set.Spec.Replicas:
			if s.Replicas == s.AvailableReplicas { // the unhealthy go first
				s.AvailableReplicas--
				s.ReadyReplicas--
			}
			s.Replicas--
			return true
		case s.AvailableReplicas < s.Replicas && set.Spec.Template.Spec.Containers[0].Image != w.broken:
			s.AvailableReplicas++
			s.ReadyReplicas++
			return true
		}
	}
	return false
}

// settle plays until nothing moves any more, and checks in every state what a rollout promises.
func (w *world) settle(check func()) {
	for range 5000 {
		busy := false
		if w.random.IntN(2) == 0 {
			busy = w.reconcile()
		} else {
			busy = w.advance()
		}
		check()
		if !busy && !w.reconcile() && !w.advance() && !w.reconcile() {
			return
		}
	}
	w.t.Fatalf("never settles: %v", w.describe())
}

func (w *world) describe() string {
	text := fmt.Sprintf("deployment wants %d;", *w.d.Spec.Replicas)
	for _, set := range w.sets {
		text += fmt.Sprintf(" %s(%s) %d/%d/%d", set.Name, set.Spec.Template.Spec.Containers[0].Image,
			*set.Spec.Replicas, set.Status.Replicas, set.Status.AvailableReplicas)
	}
	return text
}

func (w *world) sum(f func(*apps.ReplicaSet) int32) int32 {
	var n int32
	for _, set := range w.sets {
		n += f(set)
	}
	return n
}

func (w *world) wantComplete(image string) {
	w.t.Helper()
	want := *w.d.Spec.Replicas
	if !complete(w.d, &w.d.Status) {
		w.t.Fatalf("not complete: %s %+v", w.describe(), w.d.Status)
	}
	for _, set := range w.sets {
		if set.Spec.Template.Spec.Containers[0].Image == image && *set.Spec.Replicas != want {
			w.t.Fatalf("%s doesn't have all replicas: %s", image, w.describe())
		}
	}
	if c := conditionOf(&w.d.Status, apps.DeploymentProgressing); c == nil || c.Reason != newSetAvailable {
		w.t.Fatalf("condition %+v after completion", c)
	}
}

// TestRollingBounds holds a rolling update to its two promises in every state of many interleavings.
func TestRollingBounds(t *testing.T) {
	values := []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(3),
		intstr.FromString("25%"), intstr.FromString("100%")}
	seed := uint64(0)
	for _, surge := range values {
		for _, unavailable := range values {
			for _, count := range []int32{0, 1, 4, 10} {
				seed++
				w := newWorld(t, seed, count, rolling(surge, unavailable))
				w.settle(func() {})
				w.wantComplete("v1")
				maxSurge, maxUnavailable := bounds(w.d)
				check := func() {
					specs := w.sum(func(s *apps.ReplicaSet) int32 { return *s.Spec.Replicas })
					if specs > count+maxSurge {
						t.Fatalf("more than %d+%d: %s", count, maxSurge, w.describe())
					}
					serving := w.sum(func(s *apps.ReplicaSet) int32 { return s.Status.AvailableReplicas })
					if serving < count-maxUnavailable {
						t.Fatalf("fewer than %d-%d available: %s", count, maxUnavailable, w.describe())
					}
				}
				for _, image := range []string{"v2", "v3", "v1"} {
					w.image(image)
					for range w.random.IntN(20) { // the next template may come in the midst
						w.reconcile()
						w.advance()
						check()
					}
				}
				w.settle(check)
				w.wantComplete("v1")
			}
		}
	}
}

func TestBrokenTemplateKeepsServing(t *testing.T) {
	w := newWorld(t, 7, 10, rolling(intstr.FromString("25%"), intstr.FromString("25%")))
	w.settle(func() {})
	w.broken = "bad"
	w.image("bad")
	w.settle(func() {})
	if serving := w.sum(func(s *apps.ReplicaSet) int32 { return s.Status.AvailableReplicas }); serving != 8 {
		t.Fatalf("%d pods serve, want 8: %s", serving, w.describe())
	}
	w.now = w.now.Add(11 * time.Minute)
	w.reconcile()
	c := conditionOf(&w.d.Status, apps.DeploymentProgressing)
	if c == nil || c.Reason != deadlineExceeded || c.Status != v1.ConditionFalse {
		t.Fatalf("after the deadline: %+v", c)
	}
	w.image("v1") // kubectl rollout undo writes the old template back
	w.settle(func() {})
	w.wantComplete("v1")
}

func TestRevisionsAndHistory(t *testing.T) {
	w := newWorld(t, 3, 2, rolling(intstr.FromInt32(1), intstr.FromInt32(0)))
	for i, image := range []string{"v1", "v2", "v3", "v4", "v5"} {
		if i > 0 {
			w.image(image)
		}
		w.settle(func() {})
		if got := w.d.Annotations[RevisionAnnotation]; got != fmt.Sprint(i+1) {
			t.Fatalf("%s has revision %s, want %d", image, got, i+1)
		}
	}
	if len(w.sets) != 3 {
		t.Fatalf("history of 2 keeps %d sets: %s", len(w.sets), w.describe())
	}
	w.image("v4")
	w.settle(func() {})
	if got := w.d.Annotations[RevisionAnnotation]; got != "6" {
		t.Fatalf("rollback has revision %s, want 6", got)
	}
	for _, set := range w.sets {
		if set.Spec.Template.Spec.Containers[0].Image == "v4" && set.Annotations[historyAnnotation] != "4" {
			t.Fatalf("rolled back set remembers %q, want 4", set.Annotations[historyAnnotation])
		}
	}
}

func TestRecreateNeverMixes(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 3, apps.DeploymentStrategy{Type: apps.RecreateDeploymentStrategyType})
		w.settle(func() {})
		w.image("v2")
		w.settle(func() {
			alive := 0
			for _, set := range w.sets {
				if set.Status.Replicas > 0 {
					alive++
				}
			}
			if alive > 1 {
				t.Fatalf("pods of two templates: %s", w.describe())
			}
		})
		w.wantComplete("v2")
	}
}

func TestProportionalScaling(t *testing.T) {
	// The documented example: 10 replicas, maxSurge 3, maxUnavailable 2, a rollout stuck at 8 old and 5 new.
	w := newWorld(t, 1, 10, rolling(intstr.FromInt32(3), intstr.FromInt32(2)))
	w.settle(func() {})
	w.broken = "bad"
	w.image("bad")
	w.settle(func() {})
	if old, next := *w.sets[0].Spec.Replicas, *w.sets[1].Spec.Replicas; old != 8 || next != 5 {
		t.Fatalf("stuck at %d old and %d new, want 8 and 5", old, next)
	}
	w.scale(15)
	w.reconcile()
	if old, next := *w.sets[0].Spec.Replicas, *w.sets[1].Spec.Replicas; old != 11 || next != 7 {
		t.Fatalf("scaled to %d old and %d new, want 11 and 7", old, next)
	}
}

func TestPause(t *testing.T) {
	w := newWorld(t, 1, 4, rolling(intstr.FromInt32(1), intstr.FromInt32(1)))
	w.settle(func() {})
	w.d.Spec.Paused = true
	w.image("v2")
	w.settle(func() {})
	if len(w.sets) != 1 {
		t.Fatalf("a paused deployment rolled: %s", w.describe())
	}
	if c := conditionOf(&w.d.Status, apps.DeploymentProgressing); c == nil || c.Reason != paused ||
		c.Status != v1.ConditionUnknown {
		t.Fatalf("condition while paused: %+v", c)
	}
	w.scale(6)
	w.settle(func() {})
	if *w.sets[0].Spec.Replicas != 6 {
		t.Fatalf("a paused deployment didn't scale: %s", w.describe())
	}
	w.d.Spec.Paused = false
	w.d.Generation++
	w.settle(func() {})
	w.wantComplete("v2")
}

func TestRemember(t *testing.T) {
	if got := remember("", "1"); got != "1" {
		t.Errorf("first: %q", got)
	}
	if got := remember("1,2", "3"); got != "1,2,3" {
		t.Errorf("third: %q", got)
	}
	history := ""
	for i := range 2000 {
		history = remember(history, fmt.Sprint(i))
		if len(history) > historyLimit {
			t.Fatalf("%d characters", len(history))
		}
	}
	if history[len(history)-5:] != ",1999" {
		t.Errorf("ends in %q", history[len(history)-5:])
	}
}
