package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func get(t *testing.T, headers ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func decoded(t *testing.T, w *httptest.ResponseRecorder) metav1.Status {
	t.Helper()
	var out metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return out
}

var pods = schema.GroupResource{Resource: "pods"}

// TestStatusOf: every error becomes a Status that says what it is, whatever it was wrapped in.
func TestStatusOf(t *testing.T) {
	missing := apierrors.NewNotFound(pods, "p")
	for name, c := range map[string]struct {
		err     error
		code    int32
		reason  metav1.StatusReason
		message string
	}{
		"one of the API": {missing, 404, metav1.StatusReasonNotFound, `pods "p" not found`},
		"one wrapped": {fmt.Errorf("while: %w", missing), 404, metav1.StatusReasonNotFound,
			`pods "p" not found`},
		"any other": {errors.New("broken"), 500, "", "broken"},
		"time is over": {context.DeadlineExceeded, 504, metav1.StatusReasonTimeout,
			"Timeout: request did not complete within the allotted timeout"},
		"the client is gone":   {fmt.Errorf("read: %w", context.Canceled), 499, "", "the client closed the request"},
		"one that says little": {&apierrors.StatusError{}, 500, "", ""},
	} {
		got := StatusOf(t.Context(), c.err)
		if got.Code != c.code || got.Reason != c.reason || got.Message != c.message ||
			got.Status != metav1.StatusFailure || got.Kind != "Status" || got.APIVersion != "v1" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if missing.ErrStatus.Kind != "" {
		t.Error("the error itself is changed")
	}
}

// TestError: an error is told in the form that the client takes, or in JSON for people.
func TestError(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{
		field.Required(field.NewPath("spec"), ""), field.Invalid(field.NewPath("metadata", "name"), "P", "no")})
	for accept, want := range map[string]string{
		"": "application/json", "*/*": "application/json", "application/yaml": "application/yaml",
		"application/vnd.kubernetes.protobuf":          "application/vnd.kubernetes.protobuf",
		"text/html":                                    "application/json",
		"application/json;as=Table;v=v1;g=meta.k8s.io": "application/json",
	} {
		w := httptest.NewRecorder()
		Error(w, get(t, "Accept", accept), invalid)
		if got := w.Header().Get("Content-Type"); got != want || w.Code != 422 ||
			w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
			t.Errorf("%q: %d as %q, %v", accept, w.Code, got, w.Header())
		}
		pretty := strings.HasPrefix(w.Body.String(), "{\n  \"kind\": \"Status\"")
		if pretty != (accept == "text/html" || strings.Contains(accept, "Table")) {
			t.Errorf("%q: %s", accept, w.Body)
		}
	}
	w := httptest.NewRecorder()
	Error(w, get(t), invalid)
	got := decoded(t, w)
	if d := got.Details; d.Kind != "Pod" || d.Name != "p" || len(d.Causes) != 2 ||
		d.Causes[0] != (metav1.StatusCause{Type: "FieldValueRequired", Message: "Required value", Field: "spec"}) ||
		d.Causes[1] != (metav1.StatusCause{Type: "FieldValueInvalid", Message: `Invalid value: "P": no`,
			Field: "metadata.name"}) {
		t.Errorf("details %+v", d)
	}
}

// TestRetryAfter: clients are told when to come again, in the header as in the Status.
func TestRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"too many":     {apierrors.NewTooManyRequests("later", 7), "7"},
		"at any time":  {apierrors.NewTooManyRequests("later", 0), ""},
		"a timeout":    {apierrors.NewServerTimeout(pods, "get", 2), "2"},
		"another":      {apierrors.NewNotFound(pods, "p"), ""},
		"no details":   {apierrors.NewServiceUnavailable("down"), ""},
		"a name taken": {apierrors.NewGenerateNameConflict(pods, "p", 1), "1"},
	} {
		w := httptest.NewRecorder()
		Error(w, get(t), c.err)
		if got := w.Header().Get("Retry-After"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestTimeOver: a request whose time is over is answered so, whatever became of it and whatever its client takes.
func TestTimeOver(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	r := get(t, "Accept", "application/yaml").WithContext(ctx)
	w := httptest.NewRecorder()
	Error(w, r, apierrors.NewNotFound(pods, "p"))
	if got := decoded(t, w); w.Code != 504 || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" ||
		got.Reason != metav1.StatusReasonTimeout || got.Code != 504 ||
		got.Message != "Timeout: request did not complete within the allotted timeout" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	for over, want := range map[bool]int{true: 504, false: 503} {
		w, passed := httptest.NewRecorder(), get(t)
		if over {
			passed = r
		}
		Passed{passed}.Error(w, get(t), errors.New("no route"))
		if w.Code != want || !over && w.Body.String() != "no route\n" {
			t.Errorf("passed on: %d %s", w.Code, w.Body)
		}
	}
}

// TestForbidden: a refusal says who may not do what where, and nothing in it is a page.
func TestForbidden(t *testing.T) {
	jane := &user.DefaultInfo{Name: "jane"}
	for name, c := range map[string]struct {
		a            authorizer.AttributesRecord
		reason, want string
	}{
		"in a namespace": {authorizer.AttributesRecord{User: jane, Verb: "get", Resource: "pods", Name: "p",
			Namespace:       "a",
			ResourceRequest: true}, "",
			`pods "p" is forbidden: User "jane" cannot get resource "pods" in API group "" in the ` +
				`namespace "a"`},
		"of a cluster": {authorizer.AttributesRecord{User: jane, Verb: "list", Resource: "deployments",
			APIGroup:        "apps",
			ResourceRequest: true}, "no",
			`deployments.apps is forbidden: User "jane" cannot list resource "deployments" in ` +
				`API group "apps" at the cluster scope: no`},
		"a subresource": {authorizer.AttributesRecord{User: jane, Verb: "create", Resource: "pods", Subresource: "exec",
			Name: "p", Namespace: "a", ResourceRequest: true}, "",
			`pods "p" is forbidden: User "jane" cannot create resource ` +
				`"pods/exec" in API group "" in the namespace "a"`},
		"a path": {authorizer.AttributesRecord{User: jane, Verb: "get", Path: "/<x>&y"}, "",
			`forbidden: User "jane" cannot get path "/&lt;x&gt;&amp;y"`},
		"of no user": {authorizer.AttributesRecord{Verb: "get", Path: "/"}, "",
			`forbidden: User "" cannot get path "/"`},
	} {
		err := Forbidden(c.a, c.reason)
		if err.Error() != c.want || !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
		w := httptest.NewRecorder()
		Forbid(w, get(t), c.a, c.reason)
		if got := decoded(t, w); w.Code != 403 || got.Message != c.want ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
}

// TestInternal: a request that could not be authorized is answered in words.
func TestInternal(t *testing.T) {
	r := get(t)
	r.RequestURI = "/<b>"
	w := httptest.NewRecorder()
	Internal(w, r, errors.New("a < b & c"))
	if w.Code != 500 || w.Body.String() != `Internal Server Error: "/&lt;b&gt;": a &lt; b &amp; c`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestUnknown: what isn't served isn't found, unless it may be about to be served.
func TestUnknown(t *testing.T) {
	w := httptest.NewRecorder()
	Unknown(w, get(t))
	if w.Code != 404 || w.Body.String() != "404 page not found\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	r := get(t)
	w = httptest.NewRecorder()
	Unknown(w, r.WithContext(context.WithValue(r.Context(), EarlyKey{}, true)))
	if got := decoded(t, w); w.Code != 503 || w.Header().Get("Retry-After") != "5" ||
		got.Reason != metav1.StatusReasonServiceUnavailable ||
		got.Message != "the request has been made before all known "+
			"HTTP paths have been installed, please try again" {
		t.Errorf("early: %d %v %s", w.Code, w.Header(), w.Body)
	}
}
