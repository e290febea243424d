package job

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var noon = time.Unix(43200, 0)

// podAt is a running pod of an index (-1: none), made so many seconds before noon.
func podAt(name string, index, age int) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Finalizers: []string{batch.JobTrackingFinalizer},
			CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(age) * time.Second)),
		},
		Spec: v1.PodSpec{NodeName: "n"}, Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	if index >= 0 {
		pod.Annotations = map[string]string{batch.JobCompletionIndexAnnotation: strconv.Itoa(index)}
	}
	return pod
}

func deleted(pod *v1.Pod, secondsAgo int) *v1.Pod {
	pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
	pod.DeletionTimestamp = ptr.To(metav1.NewTime(noon.Add(time.Duration(30-secondsAgo) * time.Second)))
	return pod
}

func jobOf(spec batch.JobSpec) *batch.Job {
	return &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j"}, Spec: spec}
}

func names(list []*v1.Pod) []string {
	var out []string
	for _, pod := range list {
		out = append(out, pod.Name)
	}
	slices.Sort(out)
	return out
}

// A shrunk elastic job loses the pods of the indexes that are no more, and duplicates, whatever their age.
func TestSurplus(t *testing.T) {
	indexed := batch.JobSpec{CompletionMode: ptr.To(batch.IndexedCompletion)}
	for name, test := range map[string]struct {
		parallelism, completions int32
		pods                     []*v1.Pod
		want                     []string
	}{
		"index beyond completions": {2, 2, []*v1.Pod{podAt("a", 0, 1), podAt("b", 1, 60), podAt("c", 2, 60)},
			[]string{"c"}},
		"less parallelism": {1, 3, []*v1.Pod{podAt("a", 0, 60), podAt("b", 1, 1), podAt("c", 2, 30)},
			[]string{"b", "c"}},
		"two of one index": {3, 3, []*v1.Pod{podAt("a", 0, 60), podAt("b", 0, 1), podAt("c", 2, 30)},
			[]string{"b"}},
		"nothing": {3, 3, []*v1.Pod{podAt("a", 0, 60), podAt("b", 1, 1)}, nil},
	} {
		spec := indexed
		spec.Parallelism, spec.Completions = &test.parallelism, &test.completions
		p := decide(observed{job: jobOf(spec), pods: test.pods, expectationsMet: true, now: noon})
		if got := names(p.delete); !slices.Equal(got, test.want) {
			t.Errorf("%s: deletes %v, want %v", name, got, test.want)
		}
		if p.status.UncountedTerminatedPods != nil && len(p.status.UncountedTerminatedPods.Failed) > 0 {
			t.Errorf("%s: what isn't needed counts as failed", name)
		}
	}
}

// The pods that a failed job ends count as failed; those that are left over by a success don't.
func TestPodsOfAnEndedJob(t *testing.T) {
	for _, policy := range []batch.PodReplacementPolicy{batch.TerminatingOrFailed, batch.Failed} {
		for condition, want := range map[batch.JobConditionType][]string{
			batch.JobFailureTarget: {"going", "runs"}, batch.JobSuccessCriteriaMet: nil,
		} {
			job := jobOf(batch.JobSpec{Completions: ptr.To[int32](3), PodReplacementPolicy: &policy})
			job.Status.Conditions = []batch.JobCondition{{Type: condition, Status: v1.ConditionTrue}}
			going := deleted(podAt("going", -1, 60), 1)
			p := decide(observed{job: job, pods: []*v1.Pod{podAt("runs", -1, 60), going},
				expectationsMet: true, now: noon})
			var failed []string
			for _, uid := range p.status.UncountedTerminatedPods.Failed {
				failed = append(failed, string(uid))
			}
			slices.Sort(failed)
			if policy == batch.TerminatingOrFailed && condition == batch.JobSuccessCriteriaMet {
				want = []string{"going"} // it had failed by being deleted
			}
			if !slices.Equal(failed, want) {
				t.Errorf("%s, %s: %v count as failed, want %v", policy, condition, failed, want)
			}
			if got := names(p.release); !slices.Equal(got, []string{"going", "runs"}) {
				t.Errorf("%s, %s: lets go of %v", policy, condition, got)
			}
			if got := names(p.delete); !slices.Equal(got, []string{"runs"}) {
				t.Errorf("%s, %s: deletes %v", policy, condition, got)
			}
		}
	}
}

// A pod that was deleted has failed: its replacement waits, also when the pod is gone at once. What the controller
// itself removed doesn't delay anything.
func TestDeletedPodsAreReplacedLater(t *testing.T) {
	job := jobOf(batch.JobSpec{Completions: ptr.To[int32](9), Parallelism: ptr.To[int32](1),
		BackoffLimit: ptr.To[int32](6)})
	known := deletions{}
	for n, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		going := deleted(podAt(fmt.Sprint("p", n), -1, 60), 0)
		p := decide(observed{job: job, pods: []*v1.Pod{going}, expectationsMet: true, deletions: known, now: noon})
		if len(p.create) > 0 || p.again != wait {
			t.Errorf("deletion %d: creates %d, looks again after %v, want %v", n, len(p.create), p.again, wait)
		}
		for uid, at := range p.deletions {
			known[uid] = at
		}
		job.Status = p.status
		p = decide(observed{job: job, expectationsMet: true, deletions: known, now: noon.Add(wait - 1)})
		if len(p.create) > 0 {
			t.Errorf("deletion %d: replaced too early", n)
		}
		p = decide(observed{job: job, expectationsMet: true, deletions: known, now: noon.Add(wait)})
		if len(p.create) != 1 {
			t.Errorf("deletion %d: not replaced", n)
		}
	}
	dismissed := deleted(podAt("dismissed", -1, 60), 0)
	dismissed.Finalizers = nil
	fresh := jobOf(batch.JobSpec{Completions: ptr.To[int32](9), Parallelism: ptr.To[int32](1)})
	if p := decide(observed{job: fresh, pods: []*v1.Pod{dismissed}, expectationsMet: true,
		now: noon}); len(p.create) != 1 {
		t.Error("a pod that was not needed delays the next")
	}
}

// A suspended job has no start; resumed, it has its whole deadline.
func TestSuspensionStopsTheDeadline(t *testing.T) {
	job := jobOf(batch.JobSpec{Completions: ptr.To[int32](1), ActiveDeadlineSeconds: ptr.To[int64](60),
		Suspend: ptr.To(true)})
	job.Status.StartTime = ptr.To(metav1.NewTime(noon.Add(-time.Hour)))
	job.Status = decide(observed{job: job, expectationsMet: true, now: noon}).status
	if job.Status.StartTime != nil || has(&job.Status, batch.JobFailureTarget) {
		t.Errorf("suspended: %+v", job.Status)
	}
	job.Spec.Suspend = ptr.To(false)
	job.Status = decide(observed{job: job, expectationsMet: true, now: noon.Add(time.Hour)}).status
	if got := job.Status.StartTime; got == nil || !got.Time.Equal(noon.Add(time.Hour)) ||
		has(&job.Status, batch.JobFailureTarget) {
		t.Errorf("resumed: %+v", job.Status)
	}
}
