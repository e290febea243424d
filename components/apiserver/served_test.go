package apiserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestServedVersions: what --runtime-config asks for is served and told of, and nothing else; what was written in one
// version is there in all.
func TestServedVersions(t *testing.T) {
	f := start(t, func(c *options.Config) {
		c.RuntimeConfig = map[string]string{"resource.k8s.io/v1beta1": "true",
			"storage.k8s.io/v1beta1/volumeattributesclasses": "true"}
	})
	client := f.client(t)
	groups, _, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, g := range groups {
		var versions []string
		for _, v := range g.Versions {
			versions = append(versions, v.Version)
		}
		told[g.Name] = strings.Join(versions, " ")
		if g.PreferredVersion.Version != g.Versions[0].Version {
			t.Errorf("%s: preferred is %v of %v", g.Name, g.PreferredVersion, g.Versions)
		}
	}
	for group, want := range map[string]string{"resource.k8s.io": "v1 v1beta1", "storage.k8s.io": "v1 v1beta1",
		"networking.k8s.io": "v1"} {
		if told[group] != want {
			t.Errorf("%s: %s, want %s", group, told[group], want)
		}
	}

	claims := client.ResourceV1beta1().ResourceClaims("default")
	claim := &resourcev1beta1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	claim.Spec.Devices.Requests = []resourcev1beta1.DeviceRequest{{Name: "r", DeviceClassName: "gpu"}}
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	now, err := client.ResourceV1().ResourceClaims("default").Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil || now.Spec.Devices.Requests[0].Exactly == nil || now.Spec.Devices.Requests[0].Exactly.Count != 1 {
		t.Fatalf("%+v, %v", now, err)
	}
	patched, err := claims.Patch(t.Context(), "c", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{FieldManager: "patcher"})
	if err != nil || patched.Labels["a"] != "b" || patched.Spec.Devices.Requests[0].DeviceClassName != "gpu" {
		t.Fatalf("%+v, %v", patched, err)
	}
	if m := patched.ManagedFields; len(m) != 2 || m[1].Manager != "patcher" ||
		m[1].APIVersion != "resource.k8s.io/v1beta1" {
		t.Errorf("managed fields %+v", m)
	}

	code, message, header := f.raw(t, "GET", "/apis/resource.k8s.io/v1beta1/resourceslices?fieldSelector=zz=1", "", "")
	if code != 400 || message != "field label not supported for resource.k8s.io/v1beta1, Kind=ResourceSlice: zz" {
		t.Errorf("%d %s", code, message)
	}
	if got, want := header.Get(
		"Warning"),
		`299 - "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+"`; got != want {
		t.Errorf("warning %q", got)
	}
	if code, _, _ := f.raw(t, "GET", "/apis/resource.k8s.io/v1beta2/resourceslices", "", ""); code != 404 {
		t.Errorf("a version that nobody asked for: %d", code)
	}
	body, err := json.Marshal(storagev1beta1.VolumeAttributesClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1beta1", Kind: "VolumeAttributesClass"},
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, DriverName: "d.io",
		Parameters: map[string]string{"a": "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if code, message, _ := f.raw(t, "POST", "/apis/storage.k8s.io/v1beta1/volumeattributesclasses", "application/json",
		string(body)); code != 201 {
		t.Errorf("%d %s", code, message)
	}
	code, message, _ = f.raw(t, "POST", "/apis/storage.k8s.io/v1/volumeattributesclasses", "application/json",
		string(body))
	if code != 400 ||
		message != "the API version in the data (storage.k8s.io/v1beta1) does not match the expected API version "+
			"(storage.k8s.io/v1)" {
		t.Errorf("%d %s", code, message)
	}
}

// TestLeftOutVersions: what is GA may be left out, a version or a resource; what is stored of it stays, and its other
// versions are there.
func TestLeftOutVersions(t *testing.T) {
	f := start(t, func(c *options.Config) {
		c.RuntimeConfig = map[string]string{"batch/v1": "false", "apps/v1/deployments": "false",
			"events.k8s.io/v1": "false", "autoscaling/v2": "false"}
	})
	for path, want := range map[string]int{
		"/apis/batch":                                          404,
		"/apis/batch/v1/namespaces/default/jobs":               404,
		"/apis/apps/v1/deployments":                            404,
		"/apis/apps/v1/replicasets":                            200,
		"/apis/events.k8s.io/v1/events":                        404,
		"/api/v1/events":                                       200,
		"/apis/autoscaling/v2":                                 404,
		"/apis/autoscaling/v1":                                 200,
		"/apis/autoscaling/v1/horizontalpodautoscalers":        200,
		"/openapi/v3/apis/batch/v1":                            404,
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.batch": 404,
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.apps":  200,
	} {
		if code, message, _ := f.raw(t, "GET", path, "", ""); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, message, want)
		}
	}
}

// TestNoBudgets: without disruption budgets nothing can be evicted that they might be about; what they never are about
// still can.
func TestNoBudgets(t *testing.T) {
	f := start(t, withoutServiceAccounts, func(c *options.Config) {
		c.RuntimeConfig = map[string]string{"policy/v1": "false", "certificates.k8s.io/v1": "false"}
	})
	pods := f.client(t).CoreV1().Pods("default")
	for phase, want := range map[corev1.PodPhase]string{corev1.PodPending: "",
		corev1.PodRunning: "the server could not find the requested resource (get poddisruptionbudgets.policy)"} {
		name := strings.ToLower(string(phase))
		made, err := pods.Create(t.Context(), pod(name, "n1"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made.Status.Phase = phase
		if _, err := pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		err = pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if got := apierrors.ReasonForError(err); want == "" && err != nil ||
			want != "" && (got != metav1.StatusReasonNotFound || err.Error() != want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for path, want := range map[string]int{"/apis/policy": 404, "/apis/certificates.k8s.io/v1": 404, "/readyz": 200} {
		if code, message, _ := f.raw(t, "GET", path, "", ""); code != want {
			t.Errorf("%s: %d %s", path, code, message)
		}
	}
}
