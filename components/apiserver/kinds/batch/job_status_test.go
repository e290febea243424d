package batch

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func conditions(of map[batchv1.JobConditionType]corev1.ConditionStatus) (out []batchv1.JobCondition) {
	for t, status := range of {
		out = append(out, batchv1.JobCondition{Type: t, Status: status})
	}
	return out
}

// TestJobStatusChanges: what can't be together is refused of what changes, and of nothing else.
func TestJobStatusChanges(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	done := conditions(map[batchv1.JobConditionType]corev1.ConditionStatus{batchv1.JobComplete: corev1.ConditionTrue,
		batchv1.JobSuccessCriteriaMet: corev1.ConditionTrue})
	complete := batchv1.JobStatus{Conditions: done, StartTime: &early, CompletionTime: &late}
	indexed := batchv1.JobSpec{Completions: ptr.To[int32](2), CompletionMode: ptr.To(batchv1.IndexedCompletion),
		BackoffLimitPerIndex: ptr.To[int32](1)}
	suspended := conditions(map[batchv1.JobConditionType]corev1.ConditionStatus{
		batchv1.JobSuspended: corev1.ConditionTrue})
	resumed := conditions(map[batchv1.JobConditionType]corev1.ConditionStatus{
		batchv1.JobSuspended: corev1.ConditionFalse})
	for name, c := range map[string]struct {
		spec    batchv1.JobSpec
		was, is batchv1.JobStatus
		want    string // the field that is at fault
	}{
		"complete": {is: complete},
		"complete without a start": {
			is: batchv1.JobStatus{Conditions: done, CompletionTime: &late}, want: "status.startTime",
		},
		"complete without a start, suspended with nothing to do": {
			spec: batchv1.JobSpec{Suspend: ptr.To(true), Completions: new(int32)},
			is:   batchv1.JobStatus{Conditions: done, CompletionTime: &late},
		},
		"complete without a start, suspended with something to do": {
			spec: batchv1.JobSpec{Suspend: ptr.To(true), Completions: ptr.To[int32](1)},
			is:   batchv1.JobStatus{Conditions: done, CompletionTime: &late},
			want: "status.startTime",
		},
		"complete without a start for long": {
			was: batchv1.JobStatus{Conditions: done, CompletionTime: &late},
			is:  batchv1.JobStatus{Conditions: done, CompletionTime: &late, Succeeded: 1},
		},
		"another start": {was: batchv1.JobStatus{StartTime: &early},
			is: batchv1.JobStatus{StartTime: &late}, want: "status.startTime"},
		"another start, suspended": {spec: batchv1.JobSpec{Suspend: ptr.To(true)},
			was: batchv1.JobStatus{StartTime: &early}},
		"another start, of one that was resumed": {was: batchv1.JobStatus{StartTime: &early, Conditions: suspended},
			is: batchv1.JobStatus{StartTime: &late, Conditions: resumed}},
		"indexes that are too large": {
			spec: indexed, is: batchv1.JobStatus{CompletedIndexes: "1-4"}, want: "status.completedIndexes",
		},
		"indexes that are too large since the job was scaled": {
			spec: indexed, was: batchv1.JobStatus{CompletedIndexes: "1-4"},
			is: batchv1.JobStatus{CompletedIndexes: "1-4", Active: 1},
		},
		"indexes that failed and were completed": {
			spec: indexed, was: batchv1.JobStatus{CompletedIndexes: "0,1"},
			is:   batchv1.JobStatus{CompletedIndexes: "0,1", FailedIndexes: ptr.To("1")},
			want: "status.failedIndexes",
		},
		"indexes that failed and were completed, among some that can't be read": {
			spec: indexed, was: batchv1.JobStatus{CompletedIndexes: "x,1", FailedIndexes: ptr.To("9")},
			is: batchv1.JobStatus{CompletedIndexes: "x,1", FailedIndexes: ptr.To("1")}, want: "status.failedIndexes",
		},
		"more ready than active": {is: batchv1.JobStatus{Ready: ptr.To[int32](1)}, want: "status.ready"},
		"more ready than active before": {
			was: batchv1.JobStatus{Ready: ptr.To[int32](1)}, is: batchv1.JobStatus{Ready: ptr.To[int32](1), Failed: 1},
		},
		"complete with pods that end": {
			is: batchv1.JobStatus{Conditions: done, StartTime: &early, CompletionTime: &late,
				Terminating: ptr.To[int32](1)},
			want: "status.terminating",
		},
		"complete without success, and then with it": {
			was: batchv1.JobStatus{Conditions: conditions(
				map[batchv1.JobConditionType]corev1.ConditionStatus{batchv1.JobComplete: corev1.ConditionTrue}),
				StartTime: &early, CompletionTime: &late},
			is:   complete,
			want: "status.conditions",
		},
		"no longer complete": {was: complete, is: batchv1.JobStatus{StartTime: &early}, want: "status.conditions"},
	} {
		errs := ValidateJobStatus(&batchv1.Job{Spec: c.spec, Status: c.is}, &batchv1.Job{Spec: c.spec, Status: c.was})
		if (len(errs) == 0) != (c.want == "") || len(errs) > 0 && errs[0].Field != c.want {
			t.Errorf("%s: %v, want one of %q", name, errs, c.want)
		}
	}
}
