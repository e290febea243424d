package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestScalesOfCustomResources differ from those of built-in kinds: in what they are called where they can't be read,
// and in that they can't be applied.
func TestScalesOfCustomResources(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	const (
		scale   = "/apis/example.com/v1/namespaces/default/widgets/a/scale"
		deploys = "/apis/apps/v1/namespaces/default/deployments"
		body    = `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"default"},"spec":{"replicas":2}}`
		unread  = `no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"`
		unknown = `request to convert CR to an invalid group/version: autoscaling/v1`
		other   = `UID in precondition: x, UID in object meta`
		applies = "application/apply-patch+yaml"
		merges  = "application/merge-patch+json"
		deploy  = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	)
	if code, text := f.sent(t, http.MethodPost, deploys, "application/json", deploy); code != http.StatusCreated {
		t.Fatal(text)
	}
	for _, c := range []struct {
		name, method, path, media, body string
		code                            int
		want                            string
	}{
		{"no JSON", "PUT", scale, "application/json", "{", 400, unread},
		{"of another kind", "PUT", scale, "application/json", strings.Replace(body, "Scale", "X", 1), 400, unread},
		{"of a kind that there is", "PUT", scale, "application/json", `{"apiVersion":"v1","kind":"Pod"}`, 400, unread},
		{"put", "PUT", scale, "application/json", body, 200, `"replicas":2`},
		{"apply", "PATCH", scale + "?fieldManager=x&force=true", applies, strings.Replace(body, ":2", ":3", 1), 500,
			"failed to convert new object (default/a; autoscaling/v1, Kind=Scale) to proper version: " + unknown},
		{"put that doesn't say what it is", "PUT", scale, "application/json",
			`{"kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":5}}`, 200, `"replicas":5`},
		{"apply what nobody manages", "PATCH", scale + "?fieldManager=x&force=true", applies, body, 500,
			"failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) to " +
				"proper version: " + unknown},
		{"put of another UID", "PUT", scale, "application/json", strings.Replace(body, `"name"`, `"uid":"x","name"`, 1),
			409, "StorageError: invalid object"},
		{"patch of the UID", "PATCH", scale, merges, `{"metadata":{"uid":"x"}}`, 200, `"replicas":5`},
		{"patch of the UID of a deployment", "PATCH", deploys + "/a/scale", merges, `{"metadata":{"uid":"x"}}`, 409,
			`Operation cannot be fulfilled on deployments/scale.apps \"a\": Precondition failed: ` + other},
		{"apply to a deployment", "PATCH", deploys + "/a/scale?fieldManager=x&force=true", applies,
			strings.Replace(body, "2", `"2"`, 1), 500,
			`.spec.replicas: expected numeric (int or float), got string`},
	} {
		if code, text := f.sent(t, c.method, c.path, c.media, c.body); code != c.code ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.name, code, text, c.code, c.want)
		}
	}
}

// TestNamelessScalesAreNotBooked: the replicas of a scale without kind have no manager.
func TestNamelessScalesAreNotBooked(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red, replicas: 1}`)
	const scale = "/apis/example.com/v1/namespaces/default/widgets/a/scale"
	for _, want := range []bool{true, false} {
		body := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":4}}`
		if !want {
			body = `{"kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":3}}`
		}
		if code, text := f.sent(t, http.MethodPut, scale, "application/json", body); code != http.StatusOK {
			t.Fatal(text)
		}
		got, err := f.widgets().Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		booked := false
		for _, m := range got.GetManagedFields() {
			booked = booked || m.Subresource == "scale"
		}
		if booked != want {
			t.Errorf("%s: %v", body, got.GetManagedFields())
		}
	}
}
