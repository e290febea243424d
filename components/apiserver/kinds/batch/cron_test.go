package batch

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestScheduleWarnings: schedules that name their time zone are warned of whenever they are written again.
func TestScheduleWarnings(t *testing.T) {
	warnings := cronJobs(api.Deps{}).Strategy.Warnings
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"app.kubernetes.io/created-by": "x"}, // of nodes of long ago
	}}
	job := func(generation int64, schedule string) *batchv1.CronJob {
		c := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: schedule}}
		c.Spec.JobTemplate.Spec = batchv1.JobSpec{
			Template: template, CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Completions: ptr.To[int32](100_001), Parallelism: ptr.To[int32](10_001),
		}
		c.Name, c.Generation = "c", generation
		return c
	}
	const many = "spec.jobTemplate.spec: In Indexed Jobs with a number of completions higher than 10^5 and a " +
		"parallelism higher than 10^4, " +
		"Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
	const label = "spec.jobTemplate.spec.template.spec.nodeSelector[app.kubernetes.io/created-by]: deprecated since v1.9"
	const zone = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, " +
		"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
	const plain, zoned = "* * * * *", "CRON_TZ=UTC * * * * *"
	for name, tc := range map[string]struct{ got, want []string }{
		"new":       {warnings(t.Context(), job(1, plain), nil), []string{many, label}},
		"unchanged": {warnings(t.Context(), job(1, zoned), job(1, zoned)), []string{zone}},
		"changed":   {warnings(t.Context(), job(2, zoned), job(1, zoned)), []string{many, label, zone}},
		"mended":    {warnings(t.Context(), job(1, plain), job(1, zoned)), nil},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, tc.got, tc.want)
		}
	}
}
