package ttlafterfinished

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func job(name string, ttl *int32, finished batch.JobConditionType, at time.Time) *batch.Job {
	j := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"},
		Spec: batch.JobSpec{TTLSecondsAfterFinished: ttl}}
	if finished != "" {
		j.Status.Conditions = []batch.JobCondition{{Type: finished, Status: v1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(at)}}
	}
	return j
}

func TestDeletesWhenItsTimeHasCome(t *testing.T) {
	now := time.Unix(10000, 0)
	fake := clocktesting.NewFakeClock(now)
	client := runnertest.NewClient(
		job("due", ptr.To[int32](0), batch.JobFailed, now),
		job("later", ptr.To[int32](60), batch.JobComplete, now),
		job("running", ptr.To[int32](0), "", now),
		job("kept", nil, batch.JobComplete, now),
	)
	runnertest.Start(t, client, fake, func(env runner.Env) (runner.Controller, error) { return New(env) })
	gone := func(name string) func() (bool, string) {
		return func() (bool, string) {
			_, err := client.BatchV1().Jobs("ns").Get(t.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), name
		}
	}
	runnertest.Eventually(t, gone("due"))
	runnertest.Eventually(t, func() (bool, string) { return fake.HasWaiters(), "no timer waits for the clock" })
	if is, _ := gone("later")(); is {
		t.Fatal("deleted before its time")
	}
	runnertest.Eventually(t, func() (bool, string) { fake.Step(time.Minute); return gone("later")() })
	for _, name := range []string{"running", "kept"} {
		if is, _ := gone(name)(); is {
			t.Errorf("%s was deleted", name)
		}
	}
}
