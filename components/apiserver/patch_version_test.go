package apiserver_test

import (
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestPatchNamesAnotherVersion: the result of a merge patch or a JSON patch is read in the version that it names,
// through any endpoint; one of another kind, or of no version, is rejected as upstream does.
func TestPatchNamesAnotherVersion(t *testing.T) {
	f := start(t)
	scalers := f.client(t).AutoscalingV2().HorizontalPodAutoscalers("default")
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	scaler.Spec.MaxReplicas = 3
	scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
		Name: "d"}
	percent := int32(50)
	scaler.Spec.Metrics = []autoscalingv2.MetricSpec{
		{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: "memory", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
				AverageUtilization: &percent}}}}
	if _, err := scalers.Create(t.Context(), scaler, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/s"
	for patch, want := range map[string]string{
		`{"kind":"Scale"}`:                `no kind "Scale" is registered for version "autoscaling/v2" in scheme`,
		`{"apiVersion":"autoscaling/v7"}`: `no kind "HorizontalPodAutoscaler" is registered for version "autoscaling/v7" in scheme`,
		`{"kind":"Pod","apiVersion":"v1"}`: "converting (v1.Pod) to (autoscaling.HorizontalPodAutoscaler): unknown " +
			"conversion",
		`{"kind":"DeleteOptions"}`: "converting (v1.DeleteOptions) to " +
			"(autoscaling.HorizontalPodAutoscaler): unknown conversion",
		`{"apiVersion":""}`: "the name of the object (s based on URL) was undeterminable: name must " +
			"be provided",
		`{"apiVersion":null,"kind":null,"spec":0}`: "the name of the object (s based on URL) was undeterminable: name must " +
			"be provided",
	} {
		code, message, header := f.raw(t, "PATCH", path, string(types.MergePatchType), patch)
		if code != 422 && code != 400 || !strings.Contains(message, want) {
			t.Errorf("%s: %d %s, want %s", patch, code, message, want)
		}
		if strings.HasPrefix(patch, `{"apiVersion":""`) {
			if got := strings.Join(header.Values("Warning"),
				" "); got != `299 - "unknown field \"metadata\"" 299 - "unknown field \"spec\"" 299 - "unknown field \"status\""` {
				t.Errorf("%s: warnings %s", patch, got)
			}
		}
	}
	code, message, _ := f.raw(t, "PATCH", path+"?fieldValidation=Strict", string(types.MergePatchType),
		`{"apiVersion":""}`)
	if want := `strict decoding error: unknown field "metadata", unknown field "spec", unknown field "status"`; code != 422 ||
		!strings.HasSuffix(message, want) {
		t.Errorf("%d %s, want %s", code, message, want)
	}
	// autoscaling/v1 knows nothing of metrics, and gives an object without any the one that it knows.
	patched, err := scalers.Patch(t.Context(), "s", types.MergePatchType,
		[]byte(`{"apiVersion":"autoscaling/v1","metadata":{"labels":{"a":"b"}}}`),
		metav1.PatchOptions{FieldManager: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if m := patched.Spec.Metrics; len(m) != 1 || m[0].Resource.Name != "cpu" ||
		*m[0].Resource.Target.AverageUtilization != 80 || patched.Labels["a"] != "b" {
		t.Errorf("metrics %+v, labels %v", m, patched.Labels)
	}
	if m := patched.ManagedFields; len(m) != 2 || m[1].Manager != "m" || m[1].APIVersion != "autoscaling/v2" {
		t.Errorf("managed fields %+v", m)
	}
}

// TestWhiteSpaceAndVersions: to who manages fields in another version, other white space in parameters is no change; to
// the request it is.
func TestWhiteSpaceAndVersions(t *testing.T) {
	f := start(t, func(c *options.Config) { c.RuntimeConfig = map[string]string{"resource.k8s.io/v1beta2": "true"} })
	class := func(version, parameters string) string {
		return `{"apiVersion":"resource.k8s.io/` + version +
			`","kind":"DeviceClass","metadata":{"name":"c"},"spec":{"config":[{"opaque":{"driver":"d.io","parameters":` +
			parameters + `}}]}}`
	}
	const path = "/apis/resource.k8s.io/v1beta2/deviceclasses/c"
	if code, message, _ := f.raw(t, "POST", "/apis/resource.k8s.io/v1/deviceclasses?fieldManager=a", "application/json",
		class("v1", `{"a": 1}`)); code != 201 {
		t.Fatalf("%d %s", code, message)
	}
	if code, message, _ := f.raw(t, "PATCH", path+"?fieldManager=b", string(types.ApplyPatchType),
		class("v1beta2", `{"a":1}`)); code != 200 {
		t.Errorf("the apply of another version: %d %s", code, message)
	}
	c, err := f.client(t).ResourceV1().DeviceClasses().Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range c.ManagedFields {
		got = append(got, m.Manager+" "+m.APIVersion+" "+m.FieldsV1.String())
	}
	if want := `b resource.k8s.io/v1beta2 {"f:spec":{"f:config":{}}}, a resource.k8s.io/v1 {"f:spec":{"f:config":{}}}`; strings.Join(
		got,
		", ",
	) != want {
		t.Errorf("managed fields %s, want %s", strings.Join(got, ", "), want)
	}
}

// TestTrustBundleWithFaults: what is wrong with the name is told before what is wrong with the rest of the metadata.
func TestTrustBundleWithFaults(t *testing.T) {
	f := start(t, func(c *options.Config) {
		c.RuntimeConfig, c.FeatureGates = map[string]string{"certificates.k8s.io/v1beta1": "true"},
			map[string]bool{"ClusterTrustBundle": true}
	})
	const bundle = `{"apiVersion":"certificates.k8s.io/v1beta1","kind":"ClusterTrustBundle","metadata":{"name":"a:b","labels":{"A B":"c"}},"spec":{"trustBundle":"x"}}`
	code, message, _ := f.raw(t, "POST", "/apis/certificates.k8s.io/v1beta1/clustertrustbundles", "application/json",
		bundle)
	name, label, pem := strings.Index(message, "metadata.name"), strings.Index(message, "metadata.labels"),
		strings.Index(message, "spec.trustBundle")
	if code != 422 || name < 0 || label < name || pem < label {
		t.Errorf("%d %s", code, message)
	}
}
