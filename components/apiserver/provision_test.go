package apiserver_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	hooksv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestNamespacesAreProvided: a namespace that comes with its first object passes admission itself, as who makes one by
// hand knows it.
func TestNamespacesAreProvided(t *testing.T) {
	f, h := start(t, func(c *options.Config) { c.EnableAdmission = []string{"NamespaceAutoProvision"} }), newHooks(t)
	c := f.client(t)
	h.answer["label"] = func(q *admissionv1.AdmissionRequest, r *admissionv1.AdmissionResponse) {
		if q.Name == "refused" {
			r.Allowed, r.Result = false, &metav1.Status{Message: "not here"}
			return
		}
		patchOf(`[{"op": "add", "path": "/metadata/labels/by", "value": "hook"}]`)(q, r)
	}
	hook := mutating("label", h.at("label"), "namespaces")
	hook.FailurePolicy = ptr.To(hooksv1.Fail)
	installMutating(t, c, hook)

	object := func() *corev1.ConfigMap { return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}} }
	if _, err := c.CoreV1().ConfigMaps("new").Create(t.Context(), object(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	namespace, err := c.CoreV1().Namespaces().Get(t.Context(), "new", metav1.GetOptions{})
	if err != nil || namespace.Labels["by"] != "hook" || namespace.Labels[corev1.LabelMetadataName] != "new" {
		t.Errorf("got %+v, %v", namespace, err)
	}
	_, err = c.CoreV1().ConfigMaps("refused").Create(t.Context(), object(), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not here") {
		t.Errorf("a namespace that is refused: %v", err)
	}
	if _, err = c.CoreV1().Namespaces().Get(t.Context(), "refused", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that was refused: %v", err)
	}
}
