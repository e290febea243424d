package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWebhooksMissSomething: a webhook that calls what it misses NotFound says nothing of the object that it was asked
// about.
func TestWebhooksMissSomething(t *testing.T) {
	f, h := start(t), newHooks(t)
	c := f.client(t)
	maps, pods := c.CoreV1().ConfigMaps("default"), c.CoreV1().Pods("default")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waiting"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	_, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{})
	if err == nil {
		_, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = maps.Create(t.Context(), configMapFor("one"), metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	h.answer["miss"] = func(r *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
		if r.Operation == admissionv1.Delete && shown(t, r.OldObject, "metadata", "deletionTimestamp") == "" {
			return // the mark of deletion is written, what follows it is not
		}
		a.Allowed, a.Result = false,
			&metav1.Status{Message: "no such owner", Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}
	}
	install(t, c, validating("miss", h.at("miss"), "configmaps", "pods"))
	for what, do := range map[string]func() error{
		"update": func() error {
			_, err := maps.Update(t.Context(), configMapFor("one"), metav1.UpdateOptions{})
			return err
		},
		"dry run": func() error {
			_, err := maps.Update(t.Context(), configMapFor("one"),
				metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		},
		"patch": func() error {
			_, err := maps.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"data":{"a":"c"}}`),
				metav1.PatchOptions{})
			return err
		},
		"apply": func() error {
			patch := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"b":"c"}}`
			_, err := maps.Patch(t.Context(), "one", types.ApplyPatchType, []byte(patch),
				metav1.PatchOptions{FieldManager: "m"})
			return err
		},
		"delete": func() error { return pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}) },
	} {
		h.calls()
		err := do()
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "denied the request: no such owner") {
			t.Errorf("%s: %v", what, err)
		}
		if calls := h.calls(); len(calls) > 2 {
			t.Errorf("%s: the webhook was asked %q", what, calls)
		}
	}
}
