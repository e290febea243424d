package workloads

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func ofJobs() []suite.Case {
	return []suite.Case{
		{ID: "workloads/job-completes", Run: jobCompletes, Reference: jobs + "#parallel-jobs",
			Requirement: "A Job MUST run as many pods at once as it allows, and be complete with as many successes as it " +
				"asks for."},
		{ID: "workloads/job-success-policy", Run: jobSuccessPolicy, Reference: jobs + "#success-policy",
			Requirement: "An indexed Job MUST succeed, and end its other pods, once its success policy is met."},
		{ID: "workloads/job-failure-policy", Run: jobFailurePolicy, Reference: jobs + "#pod-failure-policy",
			Requirement: "A Job MUST fail without another try when a pod ends with an exit code that its policy names."},
		{ID: "workloads/job-backoff-per-index", Run: jobBackoffPerIndex, Reference: jobs + "#backoff-limit-per-index",
			Requirement: "An index that fails too often MUST NOT keep others from their end, and MUST fail the Job then."},
		{ID: "workloads/job-backoff-limit", Run: jobBackoffLimit, Reference: jobs + "#pod-backoff-failure-policy",
			Requirement: "A Job whose pods fail more often than its limit MUST fail and start no more."},
		{ID: "workloads/job-suspend", Run: jobSuspend, Reference: jobs + "#suspending-a-job",
			Requirement: "A suspended Job MUST have no pods, and start over when it is resumed."},
		{ID: "workloads/job-managed-by", Run: jobManagedBy,
			Reference: jobs +
				"#delegation-of-managing-a-job-object-to-external-controller",
			Requirement: "A Job that another controller manages MUST be left alone."},
		{ID: "workloads/job-ttl", Run: jobTTL, Reference: jobs + "#ttl-mechanism-for-finished-jobs",
			Requirement: "A finished Job MUST be deleted with its pods once its time to live is over."},
		{ID: "workloads/job-indexed", Run: jobIndexed, Reference: jobs + "#completion-mode",
			Requirement: "Each pod of an indexed Job MUST know its index by label, annotation, host name and " +
				"environment, and be tracked by a finalizer."},
		{ID: "workloads/job-elastic", Run: jobElastic, Reference: jobs + "#elastic-indexed-jobs",
			Requirement: "An indexed Job whose completions and parallelism change together MUST keep the pods of " +
				"the lower indexes."},
		{ID: "workloads/job-replacement", Run: jobReplacement, Reference: jobs + "#pod-replacement-policy",
			Requirement: "With the replacement policy Failed a pod MUST be replaced only after its end, and be " +
				"counted as terminating until then."},
		{ID: "workloads/job-deadline", Run: jobDeadline, Reference: jobs + "#job-termination-and-cleanup",
			Requirement: "A Job that is active for longer than its deadline MUST fail and end its pods."},
		{ID: "workloads/job-failure-ignored", Run: jobFailureIgnored, Reference: jobs + "#pod-failure-policy",
			Requirement: "A failure that the policy ignores MUST be made good by another pod and not count."},
		{ID: "workloads/job-fail-index", Run: jobFailIndex, Reference: jobs + "#pod-failure-policy",
			Requirement: "An exit code for which the policy says FailIndex MUST fail the index without another try."},
		{ID: "workloads/job-max-failed-indexes", Run: jobMaxFailedIndexes, Reference: jobs + "#backoff-limit-per-index",
			Requirement: "A Job of which more indexes fail than it allows MUST fail at once and end its other pods."},
		{ID: "workloads/job-pod-deleted", Run: jobPodDeleted, Reference: jobs + "#job-tracking-with-finalizers",
			Requirement: "A pod that is deleted right after its success MUST be counted."},
		{ID: "workloads/job-work-queue", Run: jobWorkQueue, Reference: jobs + "#parallel-jobs",
			Requirement: "A Job without completions MUST start no pod after the first success, and be complete when " +
				"all have ended."},
	}
}

// indexed is a Job of n indexes that may all run at once.
func indexed(n int32) batchv1.JobSpec {
	return batchv1.JobSpec{Completions: &n, Parallelism: &n, CompletionMode: ptr.To(batchv1.IndexedCompletion)}
}

// indexes returns the indexes of an app's living pods.
func indexes(t *suite.T, app string) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		pods, err := living(t, app)(ctx)
		out := []string{}
		for _, p := range pods {
			out = append(out, p.Labels[batchv1.JobCompletionIndexAnnotation])
		}
		return out, err
	}
}

func jobIndexed(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "numbered", indexed(3))
	suite.WaitFor(ctx, t, "a pod for each index", indexes(t, "numbered"), ConsistOf("0", "1", "2"))
	pods, err := living(t, "numbered")(ctx)
	t.Must(err, "list the pods")
	for _, p := range pods {
		index := p.Labels[batchv1.JobCompletionIndexAnnotation]
		t.Expect(p.Annotations).To(HaveKeyWithValue(batchv1.JobCompletionIndexAnnotation, index))
		t.Expect(p.Spec.Hostname).To(Equal("numbered-" + index))
		t.Expect(p.Labels).To(HaveKeyWithValue(batchv1.JobNameLabel, "numbered"))
		t.Expect(p.Finalizers).To(ContainElement(batchv1.JobTrackingFinalizer))
		t.Expect(p.Spec.Containers[0].Env).To(ContainElement(And(HaveField("Name", "JOB_COMPLETION_INDEX"),
			HaveField("ValueFrom.FieldRef.FieldPath",
				"metadata.labels['"+batchv1.JobCompletionIndexAnnotation+"']"))))
	}
	endPod(ctx, t, podOfIndex(ctx, t, "numbered", "1"), 0)
	suite.WaitFor(ctx, t, "the index complete", getJob(t, "numbered"), HaveField("Status.CompletedIndexes", "1"))
}

func jobElastic(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "elastic", indexed(4))
	suite.WaitFor(ctx, t, "four pods", indexes(t, "elastic"), ConsistOf("0", "1", "2", "3"))
	scale := func(n int) {
		_, err := t.Client.BatchV1().Jobs(t.Namespace).Patch(ctx, "elastic", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"completions":%d,"parallelism":%d}}`, n, n), metav1.PatchOptions{})
		t.Must(err, "scale the job to %d", n)
	}
	scale(2)
	suite.WaitFor(ctx, t, "the pods of the lower indexes", indexes(t, "elastic"), ConsistOf("0", "1"))
	scale(3)
	suite.WaitFor(ctx, t, "three pods", indexes(t, "elastic"), ConsistOf("0", "1", "2"))
}

// jobReplacement has its pods on a node that is not there, so that a deletion takes until the case says so.
func jobReplacement(ctx context.Context, t *suite.T) {
	spec := batchv1.JobSpec{PodReplacementPolicy: ptr.To(batchv1.Failed), BackoffLimit: ptr.To[int32](6)}
	spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "patient"}},
		Spec: t.Pod("patient").Spec}
	spec.Template.Spec.NodeName = t.Namespace
	_, err := t.Client.BatchV1().Jobs(t.Namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "patient"}, Spec: spec}, metav1.CreateOptions{})
	t.Must(err, "create the job")
	pods := suite.WaitFor(ctx, t, "a pod", living(t, "patient"), HaveLen(1))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, pods[0].Name, metav1.DeleteOptions{}), "delete the pod")
	suite.WaitFor(ctx, t, "the pod counted as terminating", getJob(t, "patient"),
		HaveField("Status.Terminating", HaveValue(BeEquivalentTo(1))))
	// Its replacement would be backed off, too; that it counts as failed shows at once.
	suite.Never(ctx, t, "the pod failed before its end", getJob(t, "patient"), HaveField("Status.Failed", Not(BeZero())))
	suite.Never(ctx, t, "another pod before the first one's end", living(t, "patient"), Not(BeEmpty()))
	endPod(ctx, t, pods[0].Name, 1)
	suite.WaitFor(ctx, t, "a pod in its place", living(t, "patient"), HaveLen(1))
}

func jobDeadline(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "hurried", batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To[int64](1),
		Parallelism: ptr.To[int32](2)})
	suite.WaitFor(ctx, t, "the job failed", getJob(t, "hurried"),
		inCondition(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded))
	suite.WaitFor(ctx, t, "its pods gone", living(t, "hurried"), BeEmpty())
}

func jobFailureIgnored(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "disrupted", batchv1.JobSpec{BackoffLimit: ptr.To[int32](0),
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}}}}})
	pods := suite.WaitFor(ctx, t, "a pod", living(t, "disrupted"), HaveLen(1))
	_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, pods[0].Name, types.StrategicMergePatchType,
		[]byte(`{"status":{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True","reason":"Test"}]}}`),
		metav1.PatchOptions{}, "status")
	t.Must(err, "end the pod")
	again := suite.WaitFor(ctx, t, "another pod", func(ctx context.Context) ([]corev1.Pod, error) {
		pods, err := living(t, "disrupted")(ctx)
		kept := []corev1.Pod{}
		for _, p := range pods {
			if p.Status.Phase == corev1.PodPending {
				kept = append(kept, p)
			}
		}
		return kept, err
	}, HaveLen(1))
	endPod(ctx, t, again[0].Name, 0)
	job := suite.WaitFor(ctx, t, "the job complete", getJob(t, "disrupted"), inCondition(batchv1.JobComplete, ""))
	t.Expect(job.Status.Failed).To(BeZero())
}

func jobFailIndex(ctx context.Context, t *suite.T) {
	spec := indexed(2)
	spec.BackoffLimitPerIndex = ptr.To[int32](5)
	spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailIndex,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}}}}}
	createJob(ctx, t, "picky", spec)
	endPod(ctx, t, podOfIndex(ctx, t, "picky", "0"), 42)
	suite.WaitFor(ctx, t, "the index failed without another try", getJob(t, "picky"),
		HaveField("Status.FailedIndexes", HaveValue(Equal("0"))))
	endPod(ctx, t, podOfIndex(ctx, t, "picky", "1"), 0)
	suite.WaitFor(ctx, t, "the job failed", getJob(t, "picky"),
		inCondition(batchv1.JobFailed, batchv1.JobReasonFailedIndexes))
}

func jobMaxFailedIndexes(ctx context.Context, t *suite.T) {
	spec := indexed(4)
	spec.BackoffLimitPerIndex, spec.MaxFailedIndexes = ptr.To[int32](0), ptr.To[int32](1)
	createJob(ctx, t, "fragile", spec)
	for _, index := range []string{"1", "3"} {
		endPod(ctx, t, podOfIndex(ctx, t, "fragile", index), 1)
	}
	job := suite.WaitFor(ctx, t, "the job failed", getJob(t, "fragile"),
		inCondition(batchv1.JobFailed, batchv1.JobReasonMaxFailedIndexesExceeded))
	t.Expect(job.Status.FailedIndexes).To(HaveValue(Equal("1,3")))
	suite.WaitFor(ctx, t, "the pods of other indexes gone", living(t, "fragile"), HaveLen(2))
}

// jobPodDeleted: the finalizer of its pods lets a Job count those that are deleted right after their end.
func jobPodDeleted(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "counted", batchv1.JobSpec{Completions: ptr.To[int32](2), Parallelism: ptr.To[int32](1)})
	for i := range 2 {
		pods := suite.WaitFor(ctx, t, "a pod", func(ctx context.Context) ([]corev1.Pod, error) {
			pods, err := living(t, "counted")(ctx)
			kept := []corev1.Pod{}
			for _, p := range pods {
				if p.Status.Phase == corev1.PodPending {
					kept = append(kept, p)
				}
			}
			return kept, err
		}, HaveLen(1))
		endPod(ctx, t, pods[0].Name, 0)
		t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, pods[0].Name, metav1.DeleteOptions{}), "delete the pod")
		suite.WaitFor(ctx, t, "its success counted", getJob(t, "counted"),
			HaveField("Status.Succeeded", BeEquivalentTo(i+1)))
	}
	suite.WaitFor(ctx, t, "the job complete", getJob(t, "counted"), inCondition(batchv1.JobComplete, ""))
	suite.WaitFor(ctx, t, "its pods gone", t.ListPods("app=counted"), BeEmpty())
}

func jobWorkQueue(ctx context.Context, t *suite.T) {
	createJob(ctx, t, "queue", batchv1.JobSpec{Parallelism: ptr.To[int32](3)})
	pods := suite.WaitFor(ctx, t, "three pods", living(t, "queue"), HaveLen(3))
	endPod(ctx, t, pods[0].Name, 0)
	suite.WaitFor(ctx, t, "a success", getJob(t, "queue"), HaveField("Status.Succeeded", BeEquivalentTo(1)))
	suite.Never(ctx, t, "a pod in the place of one that succeeded", living(t, "queue"), Not(HaveLen(3)))
	suite.Never(ctx, t, "the job over before its pods", getJob(t, "queue"), inCondition(batchv1.JobComplete, ""))
	for _, p := range pods[1:] {
		endPod(ctx, t, p.Name, 0)
	}
	suite.WaitFor(ctx, t, "the job complete", getJob(t, "queue"), inCondition(batchv1.JobComplete, ""))
}
