package apiserver_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestAbsurdQuantities: a quantity that nothing can compute with is refused by every verb, in every format; text that
// looks like one is not.
func TestAbsurdQuantities(t *testing.T) {
	f := start(t, withoutServiceAccounts)
	const at = "/api/v1/namespaces/default/resourcequotas"
	quota := func(name, cpu string) string {
		return `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"` + name + `"},"spec":{"hard":{"cpu":"` +
			cpu + `"}}}`
	}
	if code, message, _ := f.raw(t, "POST", at, "application/json", quota("q", "1")); code != 201 {
		t.Fatal(code, message)
	}
	const want = "must be a quantity whose exponent has at most 3 digits"
	for _, cpu := range []string{"1e999999999", "1e-999999999", `1\u0065999999999`} {
		for _, c := range []struct{ method, path, media, body string }{
			{"POST", at, "application/json", quota("new", cpu)},
			{"POST", at, "application/yaml", quota("new", cpu)},
			{"PUT", at + "/q", "application/json", quota("q", cpu)},
			{"PATCH", at + "/q", string(types.MergePatchType), quota("q", cpu)},
			{"PATCH", at + "/q", string(types.StrategicMergePatchType), quota("q", cpu)},
			{"PATCH", at + "/q?fieldManager=m", string(types.ApplyYAMLPatchType), quota("q", cpu)},
			{"PATCH", at + "/q", string(types.JSONPatchType),
				`[{"op":"replace","path":"/spec/hard/cpu","value":"` + cpu + `"}]`},
		} {
			if code, message, _ := f.raw(t, c.method, c.path, c.media, c.body); code != 422 ||
				!strings.Contains(message, "spec.hard[cpu]") || !strings.Contains(message, want) {
				t.Errorf("%s %s of %s: %d %s", c.method, c.media, cpu, code, message)
			}
		}
	}
	text := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1e999999999"}}`
	if code, message, _ := f.raw(t, "POST", "/api/v1/namespaces/default/configmaps", "application/json",
		text); code != 201 {
		t.Errorf("a ConfigMap: %d %s", code, message)
	}
	config := f.as("admin")
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	absurd := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "proto"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"cpu": resource.MustParse("1e999999999")},
	}}
	_, err = client.CoreV1().ResourceQuotas("default").Create(t.Context(), absurd, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("protobuf: %v", err)
	}
}
