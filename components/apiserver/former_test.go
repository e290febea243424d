package apiserver_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	hooksv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestStoredInFormerVersions: what an older server has left in the store is served in the current versions, and encoded
// in them by the next write, though that changes nothing.
func TestStoredInFormerVersions(t *testing.T) {
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	const key = "/registry/validatingwebhookconfigurations/w"
	const old = `{"apiVersion":"admissionregistration.k8s.io/v1beta1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w","uid":"u",` +
		`"creationTimestamp":"2020-01-01T00:00:00Z"},"webhooks":[{"name":"a.b.c","clientConfig":{"url":"https://a.b/c"}}]}`
	if _, err := store.Create(t.Context(), key, []byte(old), 0); err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *options.Config) { c.Store = store })
	client := f.client(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	shown, err := client.Get(t.Context(), "w", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if w := shown.Webhooks[0]; *w.FailurePolicy != hooksv1.Ignore || *w.MatchPolicy != hooksv1.Exact ||
		*w.TimeoutSeconds != 30 {
		t.Errorf("%+v", w)
	}
	if _, err := client.Patch(t.Context(), "w", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	page, err := store.List(t.Context(), storage.Range{Prefix: key})
	if err != nil || len(page.Items) != 1 {
		t.Fatal(page, err)
	}
	if v := page.Items[0].Value; !bytes.HasPrefix(v, []byte("k8s\x00")) ||
		!bytes.Contains(v, []byte("admissionregistration.k8s.io/v1\x12")) {
		t.Errorf("stored as %q", v)
	}
	if code, _, _ := f.raw(t, "GET", "/apis/admissionregistration.k8s.io/v1beta1/validatingwebhookconfigurations", "",
		""); code != http.StatusNotFound {
		t.Errorf("the former version is served: %d", code)
	}
}

// TestRequestsInFormerVersions: patches may make an object of a version that is not served; they are answered that it
// is of another version.
func TestRequestsInFormerVersions(t *testing.T) {
	f := start(t)
	const path, object = "/apis/apps/v1/namespaces/default/deployments",
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},` +
			`"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	if code, message, _ := f.raw(t, "POST", path, "application/json", object); code != http.StatusCreated {
		t.Fatalf("%d %s", code, message)
	}
	for patch, want := range map[string]string{
		`{"apiVersion":"apps/v1beta1","spec":{"revisionHistoryLimit":null,"rollbackTo":{"revision":2}}}`:       `{"limit":2,"rollback":"2"}`,
		`{"apiVersion":"extensions/v1beta1","spec":{"revisionHistoryLimit":null,"rollbackTo":{"revision":3}}}`: `{"limit":2147483647,"rollback":"3"}`,
	} {
		code, text, _ := f.raw(t, "PATCH", path+"/d", string(types.MergePatchType), patch)
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", patch, code, text)
		}
		d, err := f.client(t).AppsV1().Deployments("default").Get(t.Context(), "d", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(
			map[string]any{"limit": d.Spec.RevisionHistoryLimit,
				"rollback": d.Annotations["deprecated.deployment.rollback.to"]})
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", patch, got, err, want)
		}
	}
	for body, want := range map[string]string{
		strings.Replace(object, "apps/v1", "apps/v1beta1",
			1): "the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)",
		strings.Replace(object, "apps/v1", "extensions/v1beta1",
			1): "the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)",
		`{"apiVersion":"apps/v1beta1","kind":"StatefulSet"}`: `StatefulSet in version "v1beta1" cannot be handled as a Deployment: converting (v1beta1.StatefulSet) to (apps.Deployment): unknown conversion`,
		`{"apiVersion":"batch/v1beta1","kind":"CronJob"}`:    `CronJob in version "v1beta1" cannot be handled as a Deployment: converting (v1beta1.CronJob) to (apps.Deployment): unknown conversion`,
	} {
		if code, message, _ := f.raw(t, "POST", path, "application/json", body); code != http.StatusBadRequest ||
			message != want {
			t.Errorf("%s: %d %s, want %s", body, code, message, want)
		}
	}
	code, message, _ := f.raw(t, "PUT", path+"/d/scale", "application/json",
		`{"apiVersion":"extensions/v1beta1","kind":"Scale","metadata":{"name":"d"}}`)
	if want := "the API version in the data (extensions/v1beta1) does not match the expected API version " +
		"(autoscaling/v1)"; code != http.StatusBadRequest || message != want {
		t.Errorf("a former scale: %d %s", code, message)
	}
	if code, message, _ := f.raw(t, "POST", path, "application/json",
		strings.Replace(object, `"name":"d"`, `"name":"e","annotations":{"deprecated.deployment.rollback.to":"x"}`,
			1)); code != http.StatusBadRequest {
		t.Errorf("no revision: %d %s", code, message)
	}
	if code, message, _ := f.raw(t, "POST", path, "application/json",
		strings.Replace(object, `"name":"d"`, `"name":"e","annotations":{"deprecated.deployment.rollback.to":"-1"}`,
			1)); code != http.StatusUnprocessableEntity ||
		!strings.Contains(message, "spec.rollback.version: Invalid value: -1: must be greater than or equal to 0") {
		t.Errorf("a revision below 0: %d %s", code, message)
	}
}

// TestWebhookAnswersInFormerVersion: a webhook may return an object of a version that is no longer served.
func TestWebhookAnswersInFormerVersion(t *testing.T) {
	f, h := start(t), newHooks(t)
	h.answer["former"] = func(_ *admissionv1.AdmissionRequest, r *admissionv1.AdmissionResponse) {
		r.PatchType = ptr.To(admissionv1.PatchTypeJSONPatch)
		r.Patch = []byte(
			`[{"op":"replace","path":"/apiVersion","value":"extensions/v1beta1"},{"op":"add","path":"/spec/rollbackTo","value":{"revision":4}}]`,
		)
	}
	client := f.client(t)
	installMutating(t, client, mutating("former", h.at("former"), "deployments"))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	made, err := client.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.Annotations["deprecated.deployment.rollback.to"]; got != "4" {
		t.Errorf("to go back to %q", got)
	}
}
