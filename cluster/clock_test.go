package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/clock"
)

// newYear is far from real time.
var newYear = time.Date(2030, time.January, 1, 0, 0, 30, 0, time.UTC)

// timed is a cluster with a clock that shows newYear.
func timed(t *testing.T, opts ...Option) (*Cluster, kubernetes.Interface, func(time.Duration)) {
	t.Helper()
	c, client := started(t, append([]Option{WithClock(clock.New(newYear))}, opts...)...)
	return c, client, func(d time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		began := time.Now()
		if err := c.Advance(ctx, d); err != nil {
			t.Fatalf("Advance by %s: %v", d, err)
		}
		t.Logf("%s in %s", d, time.Since(began))
	}
}

// hollowPod is a pod whose container ends after a time.
func hollowPod(runFor time.Duration, code int, policy corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			"hollow.quintet.dev/run-for": runFor.String(), "hollow.quintet.dev/exit-code": fmt.Sprint(code)}},
		Spec: corev1.PodSpec{RestartPolicy: policy, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// TestWeekOfCronJobs: each night's Job is made for its time, and runs.
func TestWeekOfCronJobs(t *testing.T) {
	_, client, advance := timed(t)
	_, err := client.BatchV1().CronJobs("default").Create(t.Context(), &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly"},
		Spec: batchv1.CronJobSpec{
			Schedule: "30 3 * * *", TimeZone: ptr.To("Etc/UTC"), SuccessfulJobsHistoryLimit: ptr.To[int32](100),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
				Template: hollowPod(10*time.Minute, 0, corev1.RestartPolicyNever)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	advance(7 * 24 * time.Hour)
	jobs, err := client.BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs.Items) != 7 {
		t.Errorf("%d jobs in a week, want 7", len(jobs.Items))
	}
	for _, job := range jobs.Items {
		begun := job.CreationTimestamp.UTC()
		if made := job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]; !strings.HasSuffix(made, "T03:30:00Z") {
			t.Errorf("%s is made for %q", job.Name, made)
		}
		if begun.Hour() != 3 || begun.Minute() < 30 {
			t.Errorf("%s was created at %s", job.Name, begun)
		}
		if job.Status.CompletionTime == nil {
			t.Errorf("%s is not complete: %+v", job.Name, job.Status)
			continue
		}
		if took := job.Status.CompletionTime.Sub(begun); took < 10*time.Minute || took > time.Hour {
			t.Errorf("%s took %s", job.Name, took)
		}
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	if err != nil || !isReady(node) {
		t.Errorf("the node is not ready: %v, %v", node.Status.Conditions, err)
	}
}

func readyCondition(node *corev1.Node) corev1.NodeCondition {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return node.Status.Conditions[i]
}

func isReady(node *corev1.Node) bool { return readyCondition(node).Status == corev1.ConditionTrue }

func TestFinishedJobsGo(t *testing.T) {
	_, client, advance := timed(t)
	jobs := client.BatchV1().Jobs("default")
	_, err := jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](3600),
			Template: hollowPod(time.Minute, 0, corev1.RestartPolicyNever)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	advance(30 * time.Minute)
	job, err := jobs.Get(t.Context(), "once", metav1.GetOptions{})
	if err != nil || job.Status.CompletionTime == nil {
		t.Fatalf("after half an hour: %v, %v", job.Status, err)
	}
	advance(32 * time.Minute)
	if _, err := jobs.Get(t.Context(), "once", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the job is there an hour after it finished: %v", err)
	}
}

func TestLostNodeIsEmptied(t *testing.T) {
	c, client, advance := timed(t, WithNodes(3)) // if all nodes were lost, none would be emptied
	createPod(t.Context(), t, client, "p")
	advance(10 * time.Second)
	phase(t.Context(), t, client, "p", corev1.PodRunning)
	running, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lost := running.Spec.NodeName
	if err := c.Member(lost).Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := func() (ready corev1.ConditionStatus, evicted bool) {
		node, err := client.CoreV1().Nodes().Get(t.Context(), lost, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return readyCondition(node).Status, pod.DeletionTimestamp != nil
	}
	advance(30 * time.Second)
	if ready, _ := state(); ready != corev1.ConditionTrue {
		t.Errorf("after 30 seconds, Ready is %s", ready)
	}
	advance(40 * time.Second)
	if ready, evicted := state(); ready != corev1.ConditionUnknown || evicted {
		t.Errorf("after 70 seconds, Ready is %s, and the pod is evicted: %t", ready, evicted)
	}
	advance(4 * time.Minute)
	if _, evicted := state(); evicted {
		t.Error("the pod is evicted before five minutes are over")
	}
	advance(time.Minute)
	if _, evicted := state(); !evicted {
		t.Error("the pod is not evicted after more than five minutes")
	}
}

func TestCrashesBackOff(t *testing.T) {
	_, client, advance := timed(t)
	template := hollowPod(time.Second, 1, corev1.RestartPolicyAlways)
	pods := client.CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "crashes", Annotations: template.Annotations},
		Spec: template.Spec}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	restarts := func() int {
		got, err := pods.Get(t.Context(), "crashes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		status := got.Status.ContainerStatuses[0]
		if status.State.Waiting != nil && status.State.Waiting.Reason != "CrashLoopBackOff" {
			t.Errorf("waits for %s", status.State.Waiting.Reason)
		}
		return int(status.RestartCount)
	}
	advance(11 * time.Minute) // it begins again after 0 or 10, 20, 40, 80, 160 and 300 seconds
	few := restarts()
	if few < 5 || few > 7 {
		t.Errorf("%d restarts in 11 minutes", few)
	}
	advance(2 * time.Hour)
	if more := restarts() - few; more < 23 || more > 25 {
		t.Errorf("%d restarts in two hours, want one each 5 minutes", more)
	}
}

func TestTokensAndEventsExpire(t *testing.T) {
	c, client, advance := timed(t)
	answer, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.RESTConfig())
	config.BearerToken = answer.Status.Token
	bearer := kubernetes.NewForConfigOrDie(config)
	use := func() error {
		_, err := bearer.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		return err
	}
	createPod(t.Context(), t, client, "p")
	advance(30 * time.Minute)
	if err := use(); !apierrors.IsForbidden(err) {
		t.Errorf("after half an hour: %v", err)
	}
	scheduled := func() int {
		list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{
			FieldSelector: "reason=Scheduled,involvedObject.name=p"})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.CreationTimestamp.Year() != newYear.Year() {
				t.Errorf("an event was created at %s", e.CreationTimestamp)
			}
		}
		return len(list.Items)
	}
	if n := scheduled(); n != 1 {
		t.Errorf("%d events of the scheduling after half an hour", n)
	}
	advance(31 * time.Minute)
	if err := use(); !apierrors.IsUnauthorized(err) {
		t.Errorf("after an hour: %v", err)
	}
	if n := scheduled(); n != 0 {
		t.Errorf("%d events of the scheduling after an hour", n)
	}
}

func TestClockIsRefused(t *testing.T) {
	for _, opts := range [][]Option{
		{WithClock(clock.New(newYear))},
		{InProcess(), WithStore(EmbeddedEtcd), WithClock(clock.New(newYear))},
		{InProcess(), WithClock(nil)},
	} {
		if _, err := Start(t.Context(), opts...); err == nil || !strings.Contains(err.Error(), "clock") {
			t.Errorf("error %v, want one about the clock", err)
		}
	}
	if err := (&Cluster{config: newConfig("real")}).Advance(t.Context(), 1); err == nil ||
		!strings.Contains(err.Error(), "WithClock") {
		t.Errorf("Advance without WithClock: %v", err)
	}
}
