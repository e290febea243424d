package legacytokens

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 6, 30, 12, 0, 0, 0, time.UTC)

const period = 10 * 24 * time.Hour // the border is 2026-06-20

func secret(name string, labels map[string]string) *v1.Secret {
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: "s", Labels: labels,
			CreationTimestamp: metav1.NewTime(now.AddDate(-1, 0, 0)),
			Annotations:       map[string]string{v1.ServiceAccountNameKey: "robot", v1.ServiceAccountUIDKey: "r"},
		},
		Type: v1.SecretTypeServiceAccountToken,
	}
}

func TestDecide(t *testing.T) {
	young, opaque := secret("t", nil), secret("t", nil)
	young.CreationTimestamp = metav1.NewTime(now)
	opaque.Type = v1.SecretTypeOpaque
	invalid := func(since string) *v1.Secret { return secret("t", map[string]string{invalidSinceLabel: since}) }
	used := func(last string) *v1.Secret { return secret("t", map[string]string{lastUsedLabel: last}) }
	for name, c := range map[string]struct {
		o    observed
		want change
	}{
		"never used":       {observed{secret("t", nil), true, false}, invalidate},
		"used long ago":    {observed{used("2026-06-19"), true, false}, invalidate},
		"used on the day":  {observed{used("2026-06-20"), true, false}, keep},
		"used, unreadable": {observed{used("yesterday"), true, false}, keep},
		"invalid for long": {observed{invalid("2026-06-19"), true, false}, remove},
		"invalid":          {observed{invalid("2026-06-25"), true, false}, keep},
		"invalid, mounted": {observed{invalid("2026-06-19"), true, true}, keep},
		"made by a person": {observed{invalid("2026-06-19"), false, false}, keep},
		"young":            {observed{young, true, false}, keep},
		"no token":         {observed{opaque, true, false}, keep},
	} {
		if got := decide(c.o, period, now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestCleans(t *testing.T) {
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "r"}}
	for _, name := range []string{"unused", "invalid", "mounted"} {
		account.Secrets = append(account.Secrets, v1.ObjectReference{Name: name})
	}
	old := map[string]string{invalidSinceLabel: "2026-01-01"}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1.PodSpec{Volumes: []v1.Volume{
		{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "mounted"}}}}}}
	tracking := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: record},
		Data: map[string]string{"since": "2026-06-25"}}
	client := runnertest.NewClient(account, secret("unused", nil), secret("invalid", old), secret("mounted", old),
		secret("personal", old), pod, tracking)
	fake := clocktesting.NewFakeClock(now)
	runnertest.Start(t, client, fake, func(env runner.Env) (runner.Controller, error) { return New(env, period) })
	secrets := client.CoreV1().Secrets("ns")
	runnertest.Eventually(t, func() (bool, string) { return fake.HasWaiters(), "no timer waits for the clock" })
	if _, err := secrets.Get(t.Context(), "invalid", metav1.GetOptions{}); err != nil {
		t.Fatalf("removed before uses were recorded for a period: %v", err)
	}
	runnertest.Eventually(t, func() (bool, string) {
		fake.Step(interval)
		_, err := secrets.Get(t.Context(), "invalid", metav1.GetOptions{})
		return apierrors.IsNotFound(err), "the invalid token is there"
	})
	runnertest.Eventually(t, func() (bool, string) {
		s, err := secrets.Get(t.Context(), "unused", metav1.GetOptions{})
		if apierrors.IsNotFound(err) { // the clock went on for so long
			return true, ""
		}
		return err == nil && s.Labels[invalidSinceLabel] != "", "the unused token is valid"
	})
	for _, name := range []string{"mounted", "personal"} {
		if _, err := secrets.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
