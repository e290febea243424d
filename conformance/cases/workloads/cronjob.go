package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func ofCronJobs() []suite.Case {
	return []suite.Case{
		{ID: "workloads/cronjob-history", Run: cronJobHistory, Reference: cronJobs + "#jobs-history-limits",
			Requirement: "A CronJob MUST keep no more of its finished Jobs than its limit, the latest ones."},
		{ID: "workloads/cronjob-missed", Run: cronJobMissed, Reference: cronJobs + "#job-creation",
			Requirement: "A CronJob that missed times MUST start one Job, for the latest, and tell which are active."},
		{ID: "workloads/cronjob-allow", Run: cronJobAllow, Reference: cronJobs + "#concurrency-policy",
			Requirement: "With the concurrency policy Allow a Job MUST be started while another runs."},
		{ID: "workloads/cronjob-forbid", Run: cronJobForbid, Reference: cronJobs + "#concurrency-policy",
			Requirement: "With the concurrency policy Forbid no Job MUST be started while another runs."},
		{ID: "workloads/cronjob-replace", Run: cronJobReplace, Reference: cronJobs + "#concurrency-policy",
			Requirement: "With the concurrency policy Replace a new Job MUST take the place of the one that runs."},
		{ID: "workloads/cronjob-deadline", Run: cronJobDeadline, Reference: cronJobs + "#starting-deadline",
			Requirement: "A time that was missed by more than the starting deadline MUST be skipped."},
		{ID: "workloads/cronjob-time-zone", Run: cronJobTimeZone, Reference: cronJobs + "#time-zones",
			Requirement: "A schedule MUST be read in the CronJob's time zone."},
	}
}

// createCron creates a suspended CronJob whose Jobs another controller runs, and returns it: its creation tells the
// server's time. The case has it miss a time, so that it need not wait for one.
func createCron(ctx context.Context, t *suite.T, name string, change func(*batchv1.CronJobSpec)) *batchv1.CronJob {
	spec := batchv1.CronJobSpec{Schedule: "0 0 29 2 *", TimeZone: ptr.To("Etc/UTC"), Suspend: ptr.To(true),
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{ManagedBy: ptr.To("conformance.quintet.dev/other"),
			Template: corev1.PodTemplateSpec{Spec: t.Pod("any").Spec}}}}
	if change != nil {
		change(&spec)
	}
	cron, err := t.Client.BatchV1().CronJobs(t.Namespace).Create(ctx,
		&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	t.Must(err, "create the cron job")
	return cron
}

// missed resumes a CronJob with a schedule of every hour, the last time ago, of which it missed three.
func missed(ctx context.Context, t *suite.T, cron *batchv1.CronJob, ago time.Duration) time.Time {
	due, schedule := hourly(cron, ago)
	overdue(ctx, t, cron, schedule)
	resume(ctx, t, cron)
	return due
}

// hourly is a schedule of every hour and its latest time, which is ago.
func hourly(cron *batchv1.CronJob, ago time.Duration) (due time.Time, schedule string) {
	due = cron.CreationTimestamp.UTC().Add(-ago).Truncate(time.Minute)
	return due, fmt.Sprintf("%d * * * *", due.Minute())
}

// overdue suspends a CronJob and gives it a schedule of which it missed the times of the last three hours.
func overdue(ctx context.Context, t *suite.T, cron *batchv1.CronJob, schedule string) {
	crons := t.Client.BatchV1().CronJobs(t.Namespace)
	last, err := json.Marshal(metav1.NewTime(cron.CreationTimestamp.Add(-3 * time.Hour)))
	t.Must(err, "encode a time")
	_, err = crons.Patch(ctx, cron.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"schedule":%q,"suspend":true}}`, schedule), metav1.PatchOptions{})
	t.Must(err, "set the schedule")
	_, err = crons.Patch(ctx, cron.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"lastScheduleTime":%s}}`, last), metav1.PatchOptions{}, "status")
	t.Must(err, "set the last time")
}

func resume(ctx context.Context, t *suite.T, cron *batchv1.CronJob) {
	_, err := t.Client.BatchV1().CronJobs(t.Namespace).Patch(ctx, cron.Name, types.MergePatchType,
		[]byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	t.Must(err, "resume the cron job")
}

func jobNames(t *suite.T) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list, err := t.Client.BatchV1().Jobs(t.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		out := []string{}
		for _, job := range list.Items {
			if job.DeletionTimestamp == nil {
				out = append(out, job.Name)
			}
		}
		return out, nil
	}
}

// nameAt is the name of a CronJob's Job for a time: the CronJob's and the minute, so that none is made twice.
func nameAt(cron *batchv1.CronJob, due time.Time) string {
	return fmt.Sprintf("%s-%d", cron.Name, due.Unix()/60)
}

// started waits for a CronJob's first Job, and until the CronJob's status names it: that is not to be changed before.
func started(ctx context.Context, t *suite.T, cron, job string) {
	suite.WaitFor(ctx, t, "a job", jobNames(t), ConsistOf(job))
	suite.WaitFor(ctx, t, "the job named as active", func(ctx context.Context) (*batchv1.CronJob, error) {
		return t.Client.BatchV1().CronJobs(t.Namespace).Get(ctx, cron, metav1.GetOptions{})
	}, HaveField("Status.Active", ConsistOf(HaveField("Name", job))))
}

// finish has a Job complete as if its controller said so.
func finish(ctx context.Context, t *suite.T, name string) {
	jobs := t.Client.BatchV1().Jobs(t.Namespace)
	job, err := jobs.Get(ctx, name, metav1.GetOptions{})
	t.Must(err, "get the job")
	now := job.CreationTimestamp
	job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1,
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now}}}
	_, err = jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{})
	t.Must(err, "finish the job")
}

func cronJobMissed(ctx context.Context, t *suite.T) {
	cron := createCron(ctx, t, "late", nil)
	due, schedule := hourly(cron, 20*time.Minute)
	overdue(ctx, t, cron, schedule)
	suite.Never(ctx, t, "a job of a suspended cron job", jobNames(t), Not(BeEmpty()))
	resume(ctx, t, cron)
	suite.WaitFor(ctx, t, "a job for the latest time missed", jobNames(t), ConsistOf(nameAt(cron, due)))
	suite.Never(ctx, t, "a job for another time", jobNames(t), Not(HaveLen(1)))
	job, err := getJob(t, nameAt(cron, due))(ctx)
	t.Must(err, "get the job")
	t.Expect(job.Annotations).To(HaveKeyWithValue(batchv1.CronJobScheduledTimestampAnnotation, due.Format(time.RFC3339)))
	t.Expect(metav1.IsControlledBy(job, cron)).To(BeTrue())
	suite.WaitFor(ctx, t, "the job named as active", func(ctx context.Context) (*batchv1.CronJob, error) {
		return t.Client.BatchV1().CronJobs(t.Namespace).Get(ctx, "late", metav1.GetOptions{})
	}, And(HaveField("Status.Active", ConsistOf(HaveField("UID", job.UID))),
		HaveField("Status.LastScheduleTime.Time", BeTemporally("==", due))))
	finish(ctx, t, job.Name)
	suite.WaitFor(ctx, t, "the end of the job told", func(ctx context.Context) (*batchv1.CronJob, error) {
		return t.Client.BatchV1().CronJobs(t.Namespace).Get(ctx, "late", metav1.GetOptions{})
	}, And(HaveField("Status.Active", BeEmpty()), HaveField("Status.LastSuccessfulTime", Not(BeNil()))))
}

func cronJobForbid(ctx context.Context, t *suite.T) {
	cron := createCron(ctx, t, "single", func(spec *batchv1.CronJobSpec) {
		spec.ConcurrencyPolicy = batchv1.ForbidConcurrent
	})
	first := nameAt(cron, missed(ctx, t, cron, 40*time.Minute))
	started(ctx, t, cron.Name, first)
	second := nameAt(cron, missed(ctx, t, cron, 20*time.Minute))
	suite.Never(ctx, t, "a second job beside the first", jobNames(t), Not(ConsistOf(first)))
	finish(ctx, t, first)
	suite.WaitFor(ctx, t, "the second job after the first", jobNames(t), ContainElement(second))
}

func cronJobReplace(ctx context.Context, t *suite.T) {
	cron := createCron(ctx, t, "newest", func(spec *batchv1.CronJobSpec) {
		spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent
	})
	first := nameAt(cron, missed(ctx, t, cron, 40*time.Minute))
	started(ctx, t, cron.Name, first)
	second := nameAt(cron, missed(ctx, t, cron, 20*time.Minute))
	suite.WaitFor(ctx, t, "the second job in the first one's place", jobNames(t), ConsistOf(second))
}

func cronJobAllow(ctx context.Context, t *suite.T) {
	cron := createCron(ctx, t, "many", nil)
	first := nameAt(cron, missed(ctx, t, cron, 40*time.Minute))
	started(ctx, t, cron.Name, first)
	second := nameAt(cron, missed(ctx, t, cron, 20*time.Minute))
	suite.WaitFor(ctx, t, "both jobs", jobNames(t), ConsistOf(first, second))
}

func cronJobDeadline(ctx context.Context, t *suite.T) {
	cron := createCron(ctx, t, "strict", func(spec *batchv1.CronJobSpec) {
		spec.StartingDeadlineSeconds = ptr.To[int64](60)
	})
	missed(ctx, t, cron, 20*time.Minute)
	suite.Never(ctx, t, "a job after the deadline", jobNames(t), Not(BeEmpty()))
}

// cronJobTimeZone: Kathmandu is 5:45 hours ahead of UTC, all year long.
func cronJobTimeZone(ctx context.Context, t *suite.T) {
	cron := createCron(ctx, t, "zoned", func(spec *batchv1.CronJobSpec) { spec.TimeZone = ptr.To("Asia/Kathmandu") })
	due := cron.CreationTimestamp.UTC().Add(-20 * time.Minute).Truncate(time.Minute)
	local := due.In(time.FixedZone("", (5*60+45)*60))
	overdue(ctx, t, cron, fmt.Sprintf("%d %d * * *", local.Minute(), local.Hour()))
	resume(ctx, t, cron)
	suite.WaitFor(ctx, t, "a job at the hour of that place", jobNames(t), ConsistOf(nameAt(cron, due)))
	job, err := getJob(t, nameAt(cron, due))(ctx)
	t.Must(err, "get the job")
	t.Expect(job.Annotations).To(HaveKeyWithValue(batchv1.CronJobScheduledTimestampAnnotation,
		local.Format(time.RFC3339)))
}
