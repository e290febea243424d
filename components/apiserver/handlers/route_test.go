package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/registry"
)

// TestRoutes: what can't be asked for isn't there, and what can be asked for otherwise isn't allowed so.
func TestRoutes(t *testing.T) {
	s := serve(t, nil, "pods", "namespaces", "configmaps", "nodes")
	const missing, other = "the server could not find the requested resource",
		"the server does not allow this method on the requested resource"
	no := func(method, path string, code int) refusal {
		c := map[int]refusal{404: {reason: metav1.StatusReasonNotFound, message: missing},
			405: {reason: metav1.StatusReasonMethodNotAllowed, message: other}}[code]
		return refusal{method, path, "{}", nil, code, c.reason, c.message}
	}
	s.refused(map[string]refusal{
		"a resource that isn't known":     no("GET", "/api/v1/chairs", 404),
		"a subresource that isn't known":  no("GET", podsPath+"/p/legs", 404),
		"a creation in all namespaces":    no("POST", "/api/v1/pods", 405),
		"a creation of one":               no("POST", podsPath+"/p", 405),
		"a change of all":                 no("PUT", podsPath, 405),
		"a patch of all":                  no("PATCH", podsPath, 405),
		"a deletion of a status":          no("DELETE", podsPath+"/p/status", 405),
		"a creation of a status":          no("POST", podsPath+"/p/status", 405),
		"a read of an eviction":           no("GET", podsPath+"/p/eviction", 405),
		"what is in no namespace, in one": no("GET", "/api/v1/namespaces/a/nodes", 404),
		"what is in a namespace, in none": no("GET", "/api/v1/configmaps/x", 404),
		"something below a subresource":   no("GET", podsPath+"/p/status/phase", 404),
		"a watch of what is changed":      no("PUT", "/api/v1/watch/namespaces/a/pods", 405),
		"a watch of a subresource":        no("GET", "/api/v1/watch/namespaces/a/pods/p/status", 404),
		"a proxy of old":                  no("GET", "/api/v1/proxy/namespaces/a/pods/p", 404),
	})
	s.refused(map[string]refusal{
		"a group that isn't known": {"GET", "/apis/example.com/v1/widgets", "", nil, 404, "", "404 page not found"},
		"no resource":              {"GET", "/healthz", "", nil, 404, "", "404 page not found"},
	})
	s.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"n"}}`)
	for _, path := range []string{"/api/v1/namespaces/n", "/api/v1/namespaces/n/status", "/api/v1/namespaces",
		"/api/v1/pods", "/api/v1/namespaces/n/pods", "/api/v1/nodes"} {
		s.must(200, "GET", path, "")
	}
}

// TestPosts: actions are done by what serves them, with the body decoded and admitted, and answered by what that says.
func TestPosts(t *testing.T) {
	var asked []string
	answer := func(obj runtime.Object, err error) Post {
		return func(_ context.Context, p Posted) (runtime.Object, error) {
			uid := p.Body.(metav1.Object).GetUID()
			asked = append(asked, fmt.Sprintf("%s/%s %T %q dry:%t", p.Namespace, p.Name, p.Body, uid, p.DryRun))
			return obj, err
		}
	}
	tooMany := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	s := serve(t, func(c *Config) {
		c.Posts = map[string]Post{"pods/eviction": answer(nil, tooMany),
			"pods/binding": answer(&metav1.Status{Status: metav1.StatusSuccess, Code: 201}, nil)}
	}, "pods", "serviceaccounts")
	const eviction = `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p","uid":"made-up"}}`
	r := s.do("POST", podsPath+"/p/eviction?dryRun=All", eviction)
	if got := r.status(); r.Code != 429 || r.Header().Get("Retry-After") != "10" ||
		got.Details.RetryAfterSeconds != 10 ||
		got.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("refused: %d %v %s", r.Code, r.Header(), r.Body)
	}
	r = s.must(201, "POST", podsPath+"/p/binding", `{"metadata":{"name":"p","uid":"u"},"target":{"name":"n"}}`)
	if got := r.status(); got.Status != metav1.StatusSuccess || got.Code != 201 {
		t.Errorf("bound: %s", r.Body)
	}
	want := []string{fmt.Sprintf("a/p %T %q dry:true", &policyv1.Eviction{}, ""),
		fmt.Sprintf("a/p %T %q dry:false", &corev1.Binding{}, "u")}
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	s.refused(map[string]refusal{
		"what nothing serves": {"POST", "/api/v1/namespaces/a/serviceaccounts/x/token", "{}", nil, 503,
			metav1.StatusReasonServiceUnavailable, "the server has nothing that serves serviceaccounts/token"},
		"another kind": {"POST", podsPath + "/p/eviction", `{"apiVersion":"v1","kind":"Binding"}`, nil, 400,
			metav1.StatusReasonBadRequest,
			`Binding in version "v1" cannot be handled as a Eviction: converting (v1.Binding) ` +
				`to (policy.Eviction): unknown conversion`},
		"elsewhere": {"POST", podsPath + "/p/eviction", `{"metadata":{"name":"p","namespace":"b"}}`, nil, 400,
			metav1.StatusReasonBadRequest,
			"the namespace of the provided object does not match the namespace sent on the request"},
	})
}

// verdict is an authorizer that always says the same.
type verdict struct {
	decision authorizer.Decision
	reason   string
	err      error
	asked    *authorizer.Attributes
}

func (v verdict) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	*v.asked = a
	return v.decision, v.reason, v.err
}

// TestMayCreate: a change that creates needs the right to create, of the user and at the place of the request.
func TestMayCreate(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/a/leases"
	body := `{"metadata":{"name":"x"}}`
	apply := "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: x}\n"
	const forbidden = `leases.coordination.k8s.io "x" is forbidden: User "jane" cannot create resource "leases" ` +
		`in API ` +
		`group "coordination.k8s.io" in the namespace "a"`
	for _, c := range []struct {
		verdict verdict
		code    int
		reason  metav1.StatusReason
		message string
	}{
		{verdict{decision: authorizer.DecisionAllow}, 201, "", ""},
		{verdict{decision: authorizer.DecisionDeny, reason: "no"}, 403, metav1.StatusReasonForbidden, forbidden +
			": no"},
		{verdict{decision: authorizer.DecisionNoOpinion}, 403, metav1.StatusReasonForbidden, forbidden},
		{verdict{decision: authorizer.DecisionDeny, err: errors.New("down")}, 500, metav1.StatusReasonInternalError,
			"Internal error occurred: down"},
	} {
		var asked authorizer.Attributes
		c.verdict.asked = &asked
		s := serve(t, func(o *Config) { o.Authorizer = c.verdict }, "leases")
		put := refusal{http.MethodPut, leases + "/x", body, nil, c.code, c.reason, c.message}
		patch := refusal{http.MethodPatch, leases + "/x?fieldManager=m", apply, []string{"Content-Type", applyPatch},
			c.code,
			c.reason, c.message}
		if c.code != 201 {
			s.refused(map[string]refusal{"an update": put, "an apply": patch})
		} else {
			s.must(201, put.method, put.path, put.body)
			asked = nil
			s.must(200, patch.method, patch.path, patch.body, patch.headers...)
			if asked != nil {
				t.Error("asked though it exists")
			}
			continue
		}
		if asked.GetVerb() != "create" || asked.GetResource() != "leases" || asked.GetName() != "x" ||
			asked.GetNamespace() != "a" || asked.GetUser().GetName() != "jane" {
			t.Errorf("asked %+v", asked)
		}
	}
}

// TestNamed: what isn't there is told by the name that the resource was asked for by.
func TestNamed(t *testing.T) {
	s := serve(t, nil, "events")
	s.refused(map[string]refusal{
		"of the core": {"GET", "/api/v1/namespaces/a/events/e", "", nil, 404, metav1.StatusReasonNotFound,
			`events "e" not found`},
		"of the group": {"GET", "/apis/events.k8s.io/v1/namespaces/a/events/e", "", nil, 404,
			metav1.StatusReasonNotFound,
			`events.events.k8s.io "e" not found`},
		"deleted of the group": {"DELETE", "/apis/events.k8s.io/v1/namespaces/a/events/e", "", nil, 404,
			metav1.StatusReasonNotFound, `events.events.k8s.io "e" not found`},
		"patched of the group": {"PATCH", "/apis/events.k8s.io/v1/namespaces/a/events/e", "{}",
			[]string{"Content-Type", mergePatch}, 404, metav1.StatusReasonNotFound,
			`events.events.k8s.io "e" not found`},
	})
	c := &call{exchange: exchange{endpoint: s.api.endpoints[registry.Key{
		GroupVersion: eventsv1.SchemeGroupVersion, Resource: "events"}]}}
	other := apierrors.NewNotFound(corev1.Resource("namespaces"), "a")
	if got := c.named(other); got != error(other) {
		t.Errorf("of another resource: %v", got)
	}
}
