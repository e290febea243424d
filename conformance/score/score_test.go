package score

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

func written(manager string, at int) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate,
		Time: &metav1.Time{Time: time.Unix(int64(at), 0)}}}
}

func pod(manager string, at int, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", ManagedFields: written(manager, at)},
		Spec: corev1.PodSpec{SchedulerName: "default-scheduler"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	if change != nil {
		change(p)
	}
	return p
}

func TestWriterIsWhoseFieldsChanged(t *testing.T) {
	before := pod("conformance", 1, nil)
	after := before.DeepCopy()
	after.ManagedFields = append(after.ManagedFields, written("kubelet", 2)...)
	if got := writer(nil, before); got != "conformance" {
		t.Errorf("creator = %q", got)
	}
	if got := writer(before, after); got != "kubelet" {
		t.Errorf("writer = %q", got)
	}
	if got := writer(after, after.DeepCopy()); got != "kube-apiserver" {
		t.Errorf("nobody's fields changed, but the writer = %q", got)
	}
}

func TestDescribeTellsTheMilestonesOfAPod(t *testing.T) {
	bound := func(p *corev1.Pod) { p.Spec.NodeName = "n1" }
	running := func(p *corev1.Pod) {
		bound(p)
		p.Status.Phase = corev1.PodRunning
		p.Status.PodIP = "10.0.0.1"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	refused := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: "Unschedulable", Message: "0/0"}}
	}
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	for name, c := range map[string]struct {
		kind   watch.EventType
		before *corev1.Pod
		after  *corev1.Pod
		want   []Entry
	}{
		"created": {watch.Added, nil, pod("a", 1, nil), []Entry{{What: "created", Milestone: Accepted}}},
		"bound": {watch.Modified, pod("a", 1, nil), pod("a", 1, bound),
			[]Entry{{Actor: "kube-scheduler", What: "bound to n1", Milestone: Bound}}},
		"running": {watch.Modified, pod("a", 1, bound), pod("a", 1, running),
			[]Entry{{What: "phase Running", Milestone: Running}, {What: "ready at 10.0.0.1"}}},
		"refused": {watch.Modified, pod("a", 1, nil), pod("a", 1, refused), []Entry{{What: "Unschedulable: 0/0"}}},
		"leaving": {watch.Modified, pod("a", 1, nil), pod("a", 1, leaving),
			[]Entry{{Actor: "kube-apiserver", What: "deletion asked for"}}},
		"gone": {watch.Deleted, pod("a", 1, nil), pod("a", 1, nil),
			[]Entry{{Actor: "kube-apiserver", What: "removed", Milestone: Gone}}},
		"nothing": {watch.Modified, pod("a", 1, nil), pod("a", 2, nil), nil},
	} {
		var before metav1.Object
		if c.before != nil {
			before = c.before
		}
		if got := describe(c.kind, before, c.after); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// watches gives a client whose watches deliver what the test puts into them, by resource.
func watches() (*fake.Clientset, map[string]*watch.FakeWatcher) {
	client, open := &fake.Clientset{}, map[string]*watch.FakeWatcher{}
	for _, resource := range []string{"deployments", "replicasets", "pods", "events"} {
		open[resource] = watch.NewFake()
		client.AddWatchReactor(resource, ktesting.DefaultWatchReactor(open[resource], nil))
	}
	return client, open
}

func TestRecorderOrdersWhatItSaw(t *testing.T) {
	client, open := watches()
	recorder, err := Record(t.Context(), client, "n", "conformance")
	if err != nil {
		t.Fatal(err)
	}
	open["replicasets"].Add(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n",
		ManagedFields: written("kube-controller-manager", 1)}})
	wait(t, recorder, 1)
	open["pods"].Add(pod("conformance", 2, nil))
	wait(t, recorder, 2)
	open["events"].Add(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e",
		Namespace: "n"}, Reason: "Pulled", Message: "had it",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"},
		Source:         corev1.EventSource{Component: "kubelet"}})
	wait(t, recorder, 3)
	s := recorder.Stop()
	if want := []string{"kube-controller-manager", "client", "kubelet"}; !slices.Equal(s.Actors, want) {
		t.Errorf("actors = %v, want %v", s.Actors, want)
	}
	if s.Entries[2].Milestone != Pulled || s.Entries[2].What != "event Pulled: had it" ||
		s.Entries[2].Object != "Pod p" {
		t.Errorf("the event reads %+v", s.Entries[2])
	}
	if _, ok := s.First(Running); ok {
		t.Error("nothing ran")
	}
}

func wait(t *testing.T, r *Recorder, n int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		r.mu.Lock()
		seen := len(r.notes)
		r.mu.Unlock()
		if seen >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("saw %d notes, want %d", seen, n)
		}
		time.Sleep(time.Millisecond)
	}
}
