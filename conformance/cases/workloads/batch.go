package workloads

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

// createJob creates a Job whose pods are on no node: the case tells how they end.
func createJob(ctx context.Context, t *suite.T, name string, spec batchv1.JobSpec) {
	spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: t.Pod(name).Spec}
	unplaced(&spec.Template.Spec)
	_, err := t.Client.BatchV1().Jobs(t.Namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	t.Must(err, "create the job")
}

// endPod has a pod end as if a kubelet said so.
func endPod(ctx context.Context, t *suite.T, name string, code int) {
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	patch := fmt.Sprintf(`{"status":{"phase":%q,"containerStatuses":[{"name":"main","image":"i","imageID":"i",`+
		`"ready":false,"restartCount":0,"state":{"terminated":{"exitCode":%d}}}]}}`, phase, code)
	_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status")
	t.Must(err, "end pod %s", name)
}

func getJob(t *suite.T, name string) func(ctx context.Context) (*batchv1.Job, error) {
	return func(ctx context.Context) (*batchv1.Job, error) {
		return t.Client.BatchV1().Jobs(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

// inCondition matches a Job with a true condition, and its reason unless that is empty.
func inCondition(kind batchv1.JobConditionType, reason string) OmegaMatcher {
	match := And(HaveField("Type", kind), HaveField("Status", corev1.ConditionTrue))
	if reason != "" {
		match = And(match, HaveField("Reason", reason))
	}
	return HaveField("Status.Conditions", ContainElement(match))
}

// podOfIndex waits for the pod of an index.
func podOfIndex(ctx context.Context, t *suite.T, app, index string) string {
	pods := suite.WaitFor(ctx, t, "a pod of index "+index, living(t, app), ContainElement(
		HaveField("Labels", HaveKeyWithValue(batchv1.JobCompletionIndexAnnotation, index))))
	for i := range pods {
		if pods[i].Labels[batchv1.JobCompletionIndexAnnotation] == index {
			return pods[i].Name
		}
	}
	return ""
}

func jobCompletes(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "three", batchv1.JobSpec{Completions: ptr.To[int32](3), Parallelism: ptr.To[int32](2)})
	running := func(ctx context.Context) ([]corev1.Pod, error) {
		pods, err := living(t, "three")(ctx)
		kept := []corev1.Pod{}
		for _, p := range pods {
			if p.Status.Phase == corev1.PodPending {
				kept = append(kept, p)
			}
		}
		return kept, err
	}
	pods := suite.WaitFor(ctx, t, "two pods at a time", running, HaveLen(2))
	suite.Never(ctx, t, "a third at once", running, Not(HaveLen(2)))
	endPod(ctx, t, pods[0].Name, 0)
	pods = suite.WaitFor(ctx, t, "a third in the place of the first", running,
		And(HaveLen(2), Not(ContainElement(HaveField("Name", pods[0].Name)))))
	for _, p := range pods {
		endPod(ctx, t, p.Name, 0)
	}
	job := suite.WaitFor(ctx, t, "the job complete", getJob(t, "three"), inCondition(batchv1.JobComplete, ""))
	t.Expect(job.Status.Succeeded).To(BeEquivalentTo(3))
	t.Expect(job.Status.Active).To(BeZero())
	t.Expect(job.Status.CompletionTime).NotTo(BeNil())
	t.Expect(*job).To(inCondition(batchv1.JobSuccessCriteriaMet, ""))
}

func jobSuccessPolicy(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "leader", batchv1.JobSpec{Completions: ptr.To[int32](3), Parallelism: ptr.To[int32](3),
		CompletionMode: ptr.To(batchv1.IndexedCompletion),
		SuccessPolicy: &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{
			SucceededIndexes: ptr.To("0"), SucceededCount: ptr.To[int32](1)}}}})
	endPod(ctx, t, podOfIndex(ctx, t, "leader", "0"), 0)
	job := suite.WaitFor(ctx, t, "the job complete", getJob(t, "leader"),
		inCondition(batchv1.JobComplete, batchv1.JobReasonSuccessPolicy))
	t.Expect(job.Status.CompletedIndexes).To(Equal("0"))
	suite.WaitFor(ctx, t, "the pods of other indexes gone", living(t, "leader"), HaveLen(1))
}

func jobFailurePolicy(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "fatal", batchv1.JobSpec{BackoffLimit: ptr.To[int32](6),
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}}}}}})
	pods := suite.WaitFor(ctx, t, "a pod", living(t, "fatal"), HaveLen(1))
	endPod(ctx, t, pods[0].Name, 42)
	job := suite.WaitFor(ctx, t, "the job failed", getJob(t, "fatal"),
		inCondition(batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy))
	t.Expect(job.Status.Failed).To(BeEquivalentTo(1))
}

func jobBackoffPerIndex(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "each", batchv1.JobSpec{Completions: ptr.To[int32](2), Parallelism: ptr.To[int32](2),
		CompletionMode: ptr.To(batchv1.IndexedCompletion), BackoffLimitPerIndex: ptr.To[int32](0)})
	endPod(ctx, t, podOfIndex(ctx, t, "each", "0"), 1)
	suite.WaitFor(ctx, t, "index 0 failed", getJob(t, "each"), HaveField("Status.FailedIndexes", HaveValue(Equal("0"))))
	suite.Never(ctx, t, "the job over before index 1", getJob(t, "each"), inCondition(batchv1.JobFailed, ""))
	endPod(ctx, t, podOfIndex(ctx, t, "each", "1"), 0)
	job := suite.WaitFor(ctx, t, "the job failed", getJob(t, "each"),
		inCondition(batchv1.JobFailed, batchv1.JobReasonFailedIndexes))
	t.Expect(job.Status.CompletedIndexes).To(Equal("1"))
}

func jobBackoffLimit(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "once", batchv1.JobSpec{BackoffLimit: ptr.To[int32](0)})
	pods := suite.WaitFor(ctx, t, "a pod", living(t, "once"), HaveLen(1))
	endPod(ctx, t, pods[0].Name, 1)
	suite.WaitFor(ctx, t, "the job failed", getJob(t, "once"),
		inCondition(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded))
	suite.Never(ctx, t, "another pod", living(t, "once"), HaveLen(2))
}

func suspendJob(ctx context.Context, t *suite.T, suspend bool) {
	_, err := t.Client.BatchV1().Jobs(t.Namespace).Patch(ctx, "idle", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"suspend":%v}}`, suspend), metav1.PatchOptions{})
	t.Must(err, "set suspend to %v", suspend)
}

func jobSuspend(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "idle", batchv1.JobSpec{Suspend: ptr.To(true), Parallelism: ptr.To[int32](2)})
	suite.WaitFor(ctx, t, "the job suspended", getJob(t, "idle"), inCondition(batchv1.JobSuspended, ""))
	suite.Never(ctx, t, "a pod of it", living(t, "idle"), Not(BeEmpty()))
	suspendJob(ctx, t, false)
	suite.WaitFor(ctx, t, "two pods", living(t, "idle"), HaveLen(2))
	suite.WaitFor(ctx, t, "its start told", getJob(t, "idle"), HaveField("Status.StartTime", Not(BeNil())))
	suspendJob(ctx, t, true)
	suite.WaitFor(ctx, t, "no pods", living(t, "idle"), BeEmpty())
	suite.WaitFor(ctx, t, "the start forgotten", getJob(t, "idle"),
		And(HaveField("Status.StartTime", BeNil()), inCondition(batchv1.JobSuspended, "")))
}

func jobManagedBy(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "foreign", batchv1.JobSpec{ManagedBy: ptr.To("conformance.quintet.dev/other")})
	suite.Never(ctx, t, "a pod of it", living(t, "foreign"), Not(BeEmpty()))
	job, err := getJob(t, "foreign")(ctx)
	t.Must(err, "get the job")
	t.Expect(job.Status).To(BeZero())
}

func jobTTL(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "brief", batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](0)})
	pods := suite.WaitFor(ctx, t, "a pod", living(t, "brief"), HaveLen(1))
	endPod(ctx, t, pods[0].Name, 0)
	suite.WaitFor(ctx, t, "the job is there", func(ctx context.Context) (bool, error) {
		_, err := getJob(t, "brief")(ctx)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return true, err
	}, BeFalse())
	suite.WaitFor(ctx, t, "its pod gone", t.ListPods("app=brief"), BeEmpty())
}

// cronJobHistory has Jobs of another controller end, so that no minute has to pass.
func cronJobHistory(ctx context.Context, t *suite.T) {
	template := batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{ManagedBy: ptr.To("conformance.quintet.dev/other"),
		Template: corev1.PodTemplateSpec{Spec: t.Pod("any").Spec}}}
	cron, err := t.Client.BatchV1().CronJobs(t.Namespace).Create(ctx, &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "often"},
		Spec: batchv1.CronJobSpec{Schedule: "0 0 29 2 *", TimeZone: ptr.To("Etc/UTC"), JobTemplate: template,
			SuccessfulJobsHistoryLimit: ptr.To[int32](1)}}, metav1.CreateOptions{})
	t.Must(err, "create the cron job")
	jobs := t.Client.BatchV1().Jobs(t.Namespace)
	for i := range 3 {
		job, err := jobs.Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("often-", i),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron,
				batchv1.SchemeGroupVersion.WithKind("CronJob"))}}, Spec: template.Spec}, metav1.CreateOptions{})
		t.Must(err, "create a job")
		start := metav1.NewTime(job.CreationTimestamp.AddDate(0, 0, i-3))
		job.Status = batchv1.JobStatus{StartTime: &start, CompletionTime: &start, Succeeded: 1,
			Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: start},
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: start}}}
		_, err = jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{})
		t.Must(err, "finish a job")
	}
	names := func(ctx context.Context) ([]string, error) {
		list, err := jobs.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var out []string
		for _, job := range list.Items {
			out = append(out, job.Name)
		}
		return out, nil
	}
	suite.WaitFor(ctx, t, "only the latest kept", names, ConsistOf("often-2"))
}
