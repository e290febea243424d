package apiserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// create makes a config map in the default namespace.
func create(t *testing.T, client kubernetes.Interface, cm *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	out, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestObjectLivesAndDies(t *testing.T) {
	f := start(t)
	for _, format := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(format, func(t *testing.T) {
			config := f.as("admin")
			config.ContentType, config.AcceptContentTypes = format, format
			maps := f.clientOf(t, config).CoreV1().ConfigMaps("default")
			cm, err := maps.Create(t.Context(), configMap("a", map[string]string{"k": "1"}), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if cm.UID == "" || cm.ResourceVersion == "" || cm.CreationTimestamp.IsZero() || cm.Namespace != "default" {
				t.Errorf("metadata of the system is missing: %+v", cm.ObjectMeta)
			}
			cm.Data["k"] = "2"
			updated, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("an update of an old version: %v, want a conflict", err)
			}
			same, err := maps.Update(t.Context(), updated, metav1.UpdateOptions{})
			if err != nil || same.ResourceVersion != updated.ResourceVersion {
				t.Errorf("an update without change wrote %s over %s: %v", same.ResourceVersion, updated.ResourceVersion,
					err)
			}
			unconditional := configMap("a", map[string]string{"k": "3"})
			if _, err := maps.Update(t.Context(), unconditional, metav1.UpdateOptions{}); err != nil {
				t.Errorf("an unconditional update: %v", err)
			}
			got, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || got.Data["k"] != "3" {
				t.Errorf("got %v, %v", got.Data, err)
			}
			if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("after the deletion: %v", err)
			}
		})
	}
}

func TestGenerateName(t *testing.T) {
	client := start(t).client(t)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}
	one, two := create(t, client, cm), create(t, client, cm)
	if one.Name == two.Name || !strings.HasPrefix(one.Name, "x-") || len(one.Name) != 7 {
		t.Errorf("names %q and %q", one.Name, two.Name)
	}
	limits, err := client.CoreV1().LimitRanges("default").Create(t.Context(), &corev1.LimitRange{},
		metav1.CreateOptions{})
	if err != nil || len(limits.Name) != 36 {
		t.Errorf("a limit range of no name: %v, %v", limits, err)
	}
	given := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: one.Name, GenerateName: "x-"}}
	for _, dry := range [][]string{nil, {metav1.DryRunAll}} {
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), given, metav1.CreateOptions{DryRun: dry})
		if !apierrors.IsAlreadyExists(err) ||
			!strings.HasSuffix(err.Error(), "the server was not able to generate a unique name for the object") {
			t.Errorf("a name that is given: %v", err)
		}
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	client := start(t).client(t)
	maps := client.CoreV1().ConfigMaps("default")
	dry := []string{metav1.DryRunAll}
	cm, err := maps.Create(t.Context(), configMap("d", nil), metav1.CreateOptions{DryRun: dry})
	if err != nil || cm.UID == "" {
		t.Fatalf("create: %v, %v", cm, err)
	}
	if _, err := maps.Get(t.Context(), "d", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run created: %v", err)
	}
	stored := create(t, client, configMap("d", map[string]string{"a": "1"}))
	if _, err := maps.Create(t.Context(), configMap("d", nil),
		metav1.CreateOptions{DryRun: dry}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create of what exists: %v", err)
	}
	changed := stored.DeepCopy()
	changed.Data["a"] = "2"
	if out, err := maps.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: dry}); err != nil ||
		out.Data["a"] != "2" {
		t.Errorf("update: %v, %v", out, err)
	}
	if err := maps.Delete(t.Context(), "d", metav1.DeleteOptions{DryRun: dry}); err != nil {
		t.Errorf("delete: %v", err)
	}
	now, err := maps.Get(t.Context(), "d", metav1.GetOptions{})
	if err != nil || now.ResourceVersion != stored.ResourceVersion {
		t.Errorf("dry runs left %v, %v", now, err)
	}
}

// TestRefusals compares status errors with the documented texts.
func TestRefusals(t *testing.T) {
	f := start(t)
	client := f.client(t)
	maps := client.CoreV1().ConfigMaps("default")
	cm := create(t, client, configMap("taken", nil))
	post := func(path, contentType, body string) error {
		path, validation, _ := strings.Cut(path, "?fieldValidation=")
		return client.CoreV1().RESTClient().Post().AbsPath(path).Param("fieldValidation",
			validation).SetHeader("Content-Type", contentType).Body([]byte(body)).Do(t.Context()).Error()
	}
	const path, typ = "/api/v1/namespaces/default/configmaps", "application/json"
	cases := map[string]struct {
		got    error
		code   int32
		reason metav1.StatusReason
		text   string
	}{
		"exists": {post(path, typ, `{"metadata":{"name":"taken"}}`), 409, metav1.StatusReasonAlreadyExists,
			`configmaps "taken" already exists`},
		"no name": {post(path, typ, `{}`), 422, metav1.StatusReasonInvalid,
			`ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
		"bad name": {
			post(path, typ, `{"metadata":{"name":"A_b"}}`),
			422,
			metav1.StatusReasonInvalid,
			`ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		},
		"other namespace": {post(path, typ, `{"metadata":{"name":"a","namespace":"other"}}`), 400,
			metav1.StatusReasonBadRequest,
			"the namespace of the provided object does not match the namespace sent on the request"},
		"wrong type": {
			post(path, typ, `{"metadata":{"name":"a"},"data":{"k":1}}`),
			400,
			metav1.StatusReasonBadRequest,
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string`,
		},
		"unknown field": {post(path+"?fieldValidation=Strict", typ, `{"metadata":{"name":"a"},"dat":{}}`), 400,
			metav1.StatusReasonBadRequest,
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dat"`},
		"other kind": {
			post(path, typ, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}`),
			400,
			metav1.StatusReasonBadRequest,
			`Deployment in version "v1" cannot be handled as a ConfigMap: converting (v1.Deployment) to (core.ConfigMap): unknown conversion`,
		},
		"other version": {post("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", typ,
			`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler"}`),
			400, metav1.StatusReasonBadRequest,
			"the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)"},
		"media type": {post(path, "text/plain", `x`), 415, metav1.StatusReasonUnsupportedMediaType,
			"the body of the request was in an unknown format - accepted media types include: application/json, " +
				"application/yaml, application/vnd.kubernetes.protobuf"},
		"too large": {post(path, typ, `{"data":{"k":"`+strings.Repeat("x", 3<<20)+`"}}`), 413,
			metav1.StatusReasonRequestEntityTooLarge,
			"Request entity too large: limit is 3145728"},
		"unknown resource": {post("/api/v1/namespaces/default/nothings", typ, `{}`), 404, metav1.StatusReasonNotFound,
			"the server could not find the requested resource"},
		"method": {post(path+"/taken", typ, `{}`), 405, metav1.StatusReasonMethodNotAllowed,
			"the server does not allow this method on the requested resource"},
		"not found": {maps.Delete(t.Context(), "gone", metav1.DeleteOptions{}), 404, metav1.StatusReasonNotFound,
			`configmaps "gone" not found`},
		"precondition": {
			maps.Delete(t.Context(), "taken",
				metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}),
			409,
			metav1.StatusReasonConflict,
			fmt.Sprintf(
				`Operation cannot be fulfilled on ConfigMap "taken": the UID in the precondition (other) does not match the UID in record (%s). The object might have been deleted and then recreated`,
				cm.UID,
			),
		},
		"no namespace": {post("/api/v1/namespaces/none/configmaps", typ, `{"metadata":{"name":"a"}}`), 404,
			metav1.StatusReasonNotFound, `namespaces "none" not found`},
		"forbidden": {
			errorOf(f.clientOf(t, f.as("alice")).CoreV1().ConfigMaps("default").Get(t.Context(), "taken",
				metav1.GetOptions{})),
			403,
			metav1.StatusReasonForbidden,
			`configmaps "taken" is forbidden: User "alice" cannot get resource "configmaps" in API group "" in the namespace "default"`,
		},
		"unauthorized": {errorOf(
			f.clientOf(t, f.as("nobody")).CoreV1().ConfigMaps("default").Get(t.Context(), "taken",
				metav1.GetOptions{})), 401, metav1.StatusReasonUnauthorized,
			"Unauthorized"},
		"field selector": {errorOf(maps.List(t.Context(), metav1.ListOptions{FieldSelector: "data=x"})), 400,
			metav1.StatusReasonBadRequest,
			`"data" is not a known field selector: only "metadata.name", "metadata.namespace"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, ok := c.got.(apierrors.APIStatus)
			if !ok {
				t.Fatalf("%v is no status", c.got)
			}
			s := status.Status()
			if s.Code != c.code || s.Reason != c.reason || s.Message != c.text {
				t.Errorf("got %d %s %q\nwant %d %s %q", s.Code, s.Reason, s.Message, c.code, c.reason, c.text)
			}
		})
	}
}

func errorOf(_ any, err error) error { return err }

func TestPatches(t *testing.T) {
	client := start(t).client(t)
	maps := client.CoreV1().ConfigMaps("default")
	create(t, client, configMap("p", map[string]string{"a": "1", "b": "2"}))
	steps := []struct {
		kind  types.PatchType
		patch string
		want  string
	}{
		{types.JSONPatchType, `[{"op":"replace","path":"/data/a","value":"2"}]`, `{"a":"2","b":"2"}`},
		{types.MergePatchType, `{"data":{"b":null,"c":"3"}}`, `{"a":"2","c":"3"}`},
		{types.StrategicMergePatchType, `{"data":{"d":"4"}}`, `{"a":"2","c":"3","d":"4"}`},
	}
	for _, s := range steps {
		cm, err := maps.Patch(t.Context(), "p", s.kind, []byte(s.patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("%s: %v", s.kind, err)
		}
		if got, _ := json.Marshal(cm.Data); string(got) != s.want {
			t.Errorf("%s: got %s, want %s", s.kind, got, s.want)
		}
	}
	for name, patch := range map[string]struct {
		kind types.PatchType
		body string
		code int32
	}{
		"test fails":        {types.JSONPatchType, `[{"op":"test","path":"/data/a","value":"9"}]`, 422},
		"no such path":      {types.JSONPatchType, `[{"op":"remove","path":"/data/none"}]`, 422},
		"not JSON":          {types.MergePatchType, `{`, 400},
		"identity":          {types.MergePatchType, `{"metadata":{"name":"q"}}`, 400},
		"old version":       {types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`, 409},
		"unknown operation": {types.JSONPatchType, `[{"op":"grow","path":"/data/a"}]`, 422},
	} {
		_, err := maps.Patch(t.Context(), "p", patch.kind, []byte(patch.body), metav1.PatchOptions{})
		if s, ok := err.(apierrors.APIStatus); !ok || s.Status().Code != patch.code {
			t.Errorf("%s: got %v, want code %d", name, err, patch.code)
		}
	}
}
