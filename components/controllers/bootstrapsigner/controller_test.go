package bootstrapsigner

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cluster-bootstrap/token/jws"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 6, 30, 12, 0, 0, 0, time.UTC)

func token(id string, change ...string) *v1.Secret {
	s := &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id},
		Type:       v1.SecretTypeBootstrapToken,
		Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"),
			"usage-bootstrap-signing": []byte("true")},
	}
	for i := 0; i < len(change); i += 2 {
		s.Data[change[i]] = []byte(change[i+1])
	}
	return s
}

func TestSigners(t *testing.T) {
	opaque, misnamed := token("eeeeee"), token("ffffff")
	opaque.Type, misnamed.Name = v1.SecretTypeOpaque, "token"
	got := signers([]*v1.Secret{
		token("aaaaaa"), token("aaaaab", "expiration", "2026-06-30T13:00:00Z"), opaque, misnamed,
		token("bbbbbb", "usage-bootstrap-signing", "yes"), token("cccccc", "expiration", "2026-06-30T11:00:00Z"),
		token("dddddd", "token-id", "aaaaaa"), token("dddddd", "token-secret", ""),
	}, now)
	if len(got) != 2 || got["aaaaaa"] != "0123456789abcdef" || got["aaaaab"] == "" {
		t.Errorf("%v", got)
	}
}

func TestSigns(t *testing.T) {
	const content = "apiVersion: v1\nkind: Config\n"
	info := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
		Data: map[string]string{"kubeconfig": content, "jws-kubeconfig-zzzzzz": "of a token that is gone",
			"other": "x"},
	}
	client := runnertest.NewClient(info, token("aaaaaa"))
	runnertest.Start(t, client, clocktesting.NewFakeClock(now),
		func(env runner.Env) (runner.Controller, error) { return New(env) })
	holds := func(ids ...string) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			m, err := client.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
			if err != nil || len(m.Data) != 2+len(ids) || m.Data["other"] != "x" {
				return false, "it has other data"
			}
			for _, id := range ids {
				if !jws.DetachedTokenIsValid(m.Data["jws-kubeconfig-"+id], content, id, "0123456789abcdef") {
					return false, "no signature of " + id
				}
			}
			return true, ""
		})
	}
	holds("aaaaaa")
	tokens := client.CoreV1().Secrets("kube-system")
	if _, err := tokens.Create(t.Context(), token("bbbbbb"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("aaaaaa", "bbbbbb")
	if err := tokens.Delete(t.Context(), "bootstrap-token-aaaaaa", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("bbbbbb")
}

func TestNothingToSign(t *testing.T) {
	for name, data := range map[string]map[string]string{
		"no kubeconfig":  {"other": "x"},
		"nothing at all": nil,
	} {
		if got, err := sign(data, map[string]string{"aaaaaa": "0123456789abcdef"}); got != nil || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
