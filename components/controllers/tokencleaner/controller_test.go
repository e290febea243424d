package tokencleaner

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

func token(namespace, name, expiration string, kind v1.SecretType) *v1.Secret {
	s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}, Type: kind,
		Data: map[string][]byte{}}
	if expiration != "" {
		s.Data["expiration"] = []byte(expiration)
	}
	return s
}

func TestCleans(t *testing.T) {
	past, soon := now.Add(-time.Minute).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)
	client := runnertest.NewClient(
		token("kube-system", "past", past, v1.SecretTypeBootstrapToken),
		token("kube-system", "soon", soon, v1.SecretTypeBootstrapToken),
		token("kube-system", "unreadable", "tomorrow", v1.SecretTypeBootstrapToken),
		token("kube-system", "lasting", "", v1.SecretTypeBootstrapToken),
		token("kube-system", "opaque", past, v1.SecretTypeOpaque),
		token("default", "elsewhere", past, v1.SecretTypeBootstrapToken),
	)
	fake := clocktesting.NewFakeClock(now)
	runnertest.Start(t, client, fake, func(env runner.Env) (runner.Controller, error) { return New(env) })
	gone := func(name string) func() (bool, string) {
		return func() (bool, string) {
			_, err := client.CoreV1().Secrets("kube-system").Get(t.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), name + " is there"
		}
	}
	runnertest.Eventually(t, gone("past"))
	runnertest.Eventually(t, gone("unreadable")) // counts as expired
	if ok, _ := gone("soon")(); ok {
		t.Fatal("deleted before its time")
	}
	runnertest.Eventually(t, func() (bool, string) {
		fake.Step(time.Hour)
		return gone("soon")()
	})
	for namespace, name := range map[string]string{"kube-system": "lasting", "default": "elsewhere"} {
		if _, err := client.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ok, _ := gone("opaque")(); ok {
		t.Error("a Secret that is no token is deleted")
	}
}
