package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestIndexes(t *testing.T) {
	for text, want := range map[string]string{
		"":            "",
		"3":           "3",
		"1,2":         "1,2",
		"1-3,5":       "1-3,5",
		"5,1-3":       "1-3,5",
		"1,2,3,4":     "1-4",
		"8-20":        "8,9",
		"nonsense,1":  "1",
		"0-1,1-2,2-3": "0-3",
	} {
		if got := parseIndexes(text, 10).String(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzIndexes(f *testing.F) {
	f.Add("1-3,5", 10)
	f.Fuzz(func(t *testing.T, text string, completions int) {
		if completions > 1000 {
			return
		}
		once := parseIndexes(text, completions)
		if again := parseIndexes(once.String(), completions); !slices.Equal(once, again) {
			t.Errorf("%v became %v", once, again)
		}
	})
}

// world plays API server, scheduler and kubelet for one job.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	job     *batch.Job
	pods    []*v1.Pod
	made    int
	fails   func(w *world, pod *v1.Pod) bool
	success int // pods that ended well
}

func newWorld(t *testing.T, seed uint64, spec batch.JobSpec) *world {
	return &world{t: t, random: rand.New(rand.NewPCG(seed, 9)), now: time.Unix(10000, 0),
		job:   &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "j"}, Spec: spec},
		fails: func(*world, *v1.Pod) bool { return false }}
}

func (w *world) reconcile() {
	p := decide(observed{job: w.job, pods: w.pods, expectationsMet: true, now: w.now})
	w.job.Status = p.status
	if w.random.IntN(5) == 0 {
		return // crashed after the first write
	}
	for _, pod := range p.release {
		pod.Finalizers = nil
	}
	for _, doomed := range p.delete {
		doomed.DeletionTimestamp = &metav1.Time{Time: w.now}
	}
	for _, n := range p.create {
		w.made++
		pod := makePod(w.job, n)
		pod.UID = types.UID(fmt.Sprint("p", w.made))
		pod.CreationTimestamp = metav1.NewTime(w.now)
		pod.Status.Phase = v1.PodRunning
		w.pods = append(w.pods, pod)
	}
}

func (w *world) live() {
	w.now = w.now.Add(time.Minute)
	for _, pod := range w.pods {
		if pod.Status.Phase != v1.PodRunning || w.random.IntN(3) == 0 {
			continue
		}
		ended := v1.ContainerStatus{
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(w.now)}},
		}
		switch {
		case pod.DeletionTimestamp != nil || w.fails(w, pod):
			pod.Status.Phase = v1.PodFailed
			ended.State.Terminated.ExitCode = 1
		default:
			pod.Status.Phase = v1.PodSucceeded
			w.success++
		}
		pod.Status.ContainerStatuses = []v1.ContainerStatus{ended}
	}
	// what was to go and holds no finalizer is gone
	w.pods = slices.DeleteFunc(w.pods, func(p *v1.Pod) bool {
		return p.DeletionTimestamp != nil && len(p.Finalizers) == 0 && p.Status.Phase != v1.PodRunning
	})
}

func (w *world) run(check func()) {
	for range 2000 {
		if w.random.IntN(2) == 0 {
			w.reconcile()
		} else {
			w.live()
		}
		check()
		if finished(w.job) {
			w.reconcile()
			return
		}
	}
	w.t.Fatalf("never ends: %+v", w.job.Status)
}

func (w *world) active() int {
	n := 0
	for _, pod := range w.pods {
		if pod.Status.Phase == v1.PodRunning && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func TestCompletes(t *testing.T) {
	for seed := range uint64(30) {
		for _, mode := range []batch.CompletionMode{batch.NonIndexedCompletion, batch.IndexedCompletion} {
			w := newWorld(t, seed, batch.JobSpec{Completions: ptr.To[int32](12), Parallelism: ptr.To[int32](4),
				BackoffLimit: ptr.To[int32](1000), CompletionMode: &mode})
			w.fails = func(w *world, _ *v1.Pod) bool { return w.random.IntN(4) == 0 }
			w.run(func() {
				if n := w.active(); n > 4 {
					t.Fatalf("%d active pods", n)
				}
			})
			s := w.job.Status
			if !has(&s, batch.JobComplete) || s.Succeeded != 12 || s.Active != 0 || s.CompletionTime == nil ||
				w.success != 12 {
				t.Fatalf("seed %d, %s: %d succeeded, status %+v", seed, mode, w.success, s)
			}
			if mode == batch.IndexedCompletion && s.CompletedIndexes != "0-11" {
				t.Fatalf("completed %q", s.CompletedIndexes)
			}
			failed := int32(0)
			for _, pod := range w.pods {
				if pod.Status.Phase == v1.PodFailed {
					failed++
				}
			}
			if s.Failed != failed {
				t.Fatalf("seed %d, %s: counted %d failures of %d", seed, mode, s.Failed, failed)
			}
		}
	}
}

func reason(w *world, t batch.JobConditionType) string {
	if c := find(&w.job.Status, t); c != nil && c.Status == v1.ConditionTrue {
		return c.Reason
	}
	return ""
}

func TestFails(t *testing.T) {
	always := func(*world, *v1.Pod) bool { return true }
	exit := &batch.PodFailurePolicyOnExitCodesRequirement{Operator: batch.PodFailurePolicyOnExitCodesOpIn,
		Values: []int32{1}}
	for name, tc := range map[string]struct {
		spec  batch.JobSpec
		fails func(*world, *v1.Pod) bool
		want  string
	}{
		"backoff limit": {batch.JobSpec{Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](2)}, always,
			batch.JobReasonBackoffLimitExceeded},
		"deadline": {batch.JobSpec{Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](1000),
			ActiveDeadlineSeconds: ptr.To[int64](600)}, always, batch.JobReasonDeadlineExceeded},
		"failure policy": {batch.JobSpec{Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](1000),
			PodFailurePolicy: &batch.PodFailurePolicy{
				Rules: []batch.PodFailurePolicyRule{{Action: batch.PodFailurePolicyActionFailJob, OnExitCodes: exit}}}},
			always, batch.JobReasonPodFailurePolicy},
		"one index": {batch.JobSpec{Completions: ptr.To[int32](3), Parallelism: ptr.To[int32](3),
			BackoffLimit: ptr.To[int32](1000), BackoffLimitPerIndex: ptr.To[int32](1),
			CompletionMode: ptr.To(batch.IndexedCompletion)},
			func(w *world, p *v1.Pod) bool { return indexOf(p, w.job) == 1 }, batch.JobReasonFailedIndexes},
		"too many indexes": {batch.JobSpec{Completions: ptr.To[int32](3), Parallelism: ptr.To[int32](3),
			BackoffLimit: ptr.To[int32](1000), BackoffLimitPerIndex: ptr.To[int32](0),
			MaxFailedIndexes: ptr.To[int32](1), CompletionMode: ptr.To(batch.IndexedCompletion)}, always,
			batch.JobReasonMaxFailedIndexesExceeded},
	} {
		for seed := range uint64(10) {
			w := newWorld(t, seed, tc.spec)
			w.fails = tc.fails
			w.run(func() {})
			if got := reason(w, batch.JobFailed); got != tc.want || w.active() != 0 {
				t.Errorf("%s: %q with %d active, want %q", name, got, w.active(), tc.want)
			}
		}
	}
}

func TestSuspend(t *testing.T) {
	w := newWorld(t, 1, batch.JobSpec{Completions: ptr.To[int32](6), Parallelism: ptr.To[int32](3),
		BackoffLimit: ptr.To[int32](0)})
	for w.active() < 3 {
		w.reconcile()
	}
	w.job.Spec.Suspend = ptr.To(true)
	for range 40 {
		w.reconcile()
		w.live()
	}
	if w.active() != 0 || reason(w, batch.JobSuspended) != "JobSuspended" || w.job.Status.Failed != 0 {
		t.Fatalf("%d active, status %+v", w.active(), w.job.Status)
	}
	w.job.Spec.Suspend = ptr.To(false)
	w.run(func() {})
	if !has(&w.job.Status, batch.JobComplete) {
		t.Fatalf("%+v", w.job.Status)
	}
}

func TestSuccessPolicy(t *testing.T) {
	policy := &batch.SuccessPolicy{Rules: []batch.SuccessPolicyRule{
		{SucceededIndexes: ptr.To("0-1")},
		{SucceededIndexes: ptr.To("2-5"), SucceededCount: ptr.To[int32](2)},
	}}
	for text, want := range map[string]bool{"0": false, "0,1": true, "2": false, "3,5": true, "6-9": false} {
		if _, got := fulfilled(policy, 10, parseIndexes(text, 10)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestPodsOfLongNamedJobsKeepTheirIndex(t *testing.T) {
	for name, want := range map[string]string{"j": "j-7-", strings.Repeat("x", 60): strings.Repeat("x", 55) + "-7-"} {
		job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if pod := makePod(job, newPod{index: 7}); pod.GenerateName != want || pod.Name != "" {
			t.Errorf("%s: %q %q", name, pod.GenerateName, pod.Name)
		}
	}
}
