package apiserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestAnsweredAsUpstream holds how requests are answered that ask in an unusual way: by another method, or for another
// form.
func TestAnsweredAsUpstream(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	const (
		maps    = "/api/v1/namespaces/default/configmaps"
		widgets = "/apis/example.com/v1/namespaces/default/widgets"
		table   = "application/json;as=Table;g=meta.k8s.io;v=v1"
		list    = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		crd     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
	)
	for _, c := range []struct {
		method, path, accept, body string
		code                       int
		text                       string // part of the answer
	}{
		{"POST", widgets + "/b", "", `{}`, 400, "the object provided is unrecognized"},
		{"PUT", widgets, "", `{}`, 400, "name must be provided"},
		{"GET", widgets + "/a/status/more", "", "", 200, `"name":"a"`},
		{"HEAD", widgets + "/none", "", "", 404, ""},
		{"OPTIONS", widgets + "/a", "", "", 405,
			`"message":" is not supported on resources of kind \"widgets.example.com\"`},
		{"DELETE", widgets + "/a/status", "", "", 405,
			`delete is not supported on resources of kind \"widgets.example.com\"`},
		{"GET", "/apis/example.com/v1/widgets/a", "", "", 404, "404 page not found"},
		{"GET", widgets + "/a", list, "", 500, `"message":"content is not a list"`},
		{"GET", widgets + "/a/scale", list, "", 406, "the requested object is not a list (*v1.Scale)"},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
			"application/json;as=Table;v=v1;g=meta.k8s.io", "", 200, `"rows":null}`},
		{"GET", "/api/v1/namespaces/default/pods", "application/json;as=Table;v=v1;g=meta.k8s.io", "", 200,
			`"rows":[]}`},
		{"GET", widgets + "/a/scale", table, "", 200, "Number of desired replicas"},
		{"GET", widgets + "?labelSelector=none", list, "", 200, `"items":null`},
		{"GET", maps + "?labelSelector=none", list, "", 200, `"items":null`},
		{"GET", maps + "?labelSelector=none", "", "", 200, `"items":[]`},
		{"GET", maps + "?watch=1&timeoutSeconds=1", list, "", 200, ""},
		{"GET", maps + "?watch=1&resourceVersion=x", "application/yaml", "", 500, "resourceVersion"},
		{"GET", maps + "?watch=1&timeoutSeconds=-1", "", "", 200,
			`"message":"context deadline exceeded","metadata":{},"reason":"InternalError"`},
		{"GET", crd, table, "", 200, `"Table"`},
		{"GET", crd + "/status", table, "", 406, "only the following media types are accepted"},
		{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", table, `{}`, 406,
			"only the following media types are accepted"},
		{"GET", "/version", "text/plain", "", 406, `Available representations: application/json"`},
		{"GET", "/version", "text/*, application/json", "", 200, "emulationMajor"},
		{"GET", "/openid/v1/jwks", "application/json", "", 406, `Available representations: application/jwk-set+json`},
		{"POST", "/apis/apiregistration.k8s.io", "", "{}", 405, "does not allow this method"},
		{"GET", "/index.html", "", "", 200, `"/statusz"`},
		{"GET", "/apis/", "", "", 200, `"kind":"APIGroupList"`},
		{"GET", "/openapi/v3/", "", "", 404, ""},
		{"GET", "/openapi/v3/apis/apps/v1/", "", "", 404, ""},
		{"GET", "/openapi/v3/apis/example.com/v1/", "", "", 404, ""},
		{"GET", "/openapi/v3/apis/", "", "", 404, ""},
		{"POST", maps + "?dryRun=All", "", `{"metadata":{"name":"dry","resourceVersion":"7"}}`, 201,
			`"resourceVersion":"7"`},
		{"DELETE", "/api/v1/namespaces/kube-public", "", `{"preconditions":{"uid":"x"}}`, 409,
			`on namespaces \"kube-public\": Precondition failed: UID in precondition: x,`},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l?dryRun=All", "",
			`{"metadata":{"name":"l","uid":"x"}}`, 409, "Key: /leases/default/l,"},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", "", `{"metadata":{"name":"l","uid":"x"}}`,
			409, "Key: /registry/leases/default/l,"},
	} {
		headers := []string{"Content-Type", "application/json"}
		if c.accept != "" {
			headers = append(headers, "Accept", c.accept)
		}
		resp, text := f.with(t, c.method, c.path, c.body, headers...)
		if c.code >= 400 || !strings.Contains(text, "\n ") {
			text = compact(text)
		}
		if resp.StatusCode != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.accept, resp.StatusCode, text)
		}
	}
	resp, text := f.with(t, "GET", "/api/v1/componentstatuses?watch=1", "")
	if resp.StatusCode != 405 || !strings.Contains(resp.Header.Get("Warning"), "ComponentStatus is deprecated") {
		t.Errorf("watch of component statuses: %d %q %s", resp.StatusCode, resp.Header.Get("Warning"), text)
	}
}

// compact takes the indentation out of JSON.
func compact(text string) string {
	var content any
	if json.Unmarshal([]byte(text), &content) != nil {
		return text
	}
	out, err := json.Marshal(content)
	if err != nil {
		return text
	}
	return string(out)
}

// TestProgramPages: the pages that describe the program, the users that may read them, and their gates.
func TestProgramPages(t *testing.T) {
	told := func(c *options.Config) {
		c.CommandLine = func() map[string]string { return map[string]string{"v": "2"} }
	}
	f := start(t, told)
	for path, want := range map[string]string{"/statusz": "/flagz /healthz /livez /metrics /readyz /statusz /version",
		"/flagz": "v"} {
		if resp, text := f.with(t, "GET", path, ""); resp.StatusCode != 200 ||
			!strings.Contains(text, "apiserver "+path[1:]) || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
		resp, text := f.with(t, "GET", path, "", "Accept", "application/json")
		if resp.StatusCode != 406 ||
			!strings.Contains(text,
				"only the following media types are accepted: application/json, application/yaml, text/plain") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
		if resp, _ := f.with(t, "GET", path, "", "Authorization", "Bearer alice"); resp.StatusCode != 403 {
			t.Errorf("anybody reads %s: %d", path, resp.StatusCode)
		}
	}
	off := start(t, told, gated(map[string]bool{"ComponentStatusz": false, "ComponentFlagz": false}))
	for _, path := range []string{"/statusz", "/flagz"} {
		if resp, _ := off.with(t, "GET", path, ""); resp.StatusCode != 404 {
			t.Errorf("%s is there without its gate", path)
		}
	}
}

func TestDebugFlags(t *testing.T) {
	f := start(t, func(c *options.Config) { c.Profiling.On = true })
	for _, c := range []struct {
		method, path, body string
		code               int
		text               string
	}{
		{"GET", "/debug/flags", "", 200, "<tr>v<br>"},
		{"GET", "/debug/flags/v", "", 406, "unsupported http method\n"},
		{"PUT", "/debug/flags/v", "loud", 400, `strconv.ParseUint: parsing "loud": invalid syntax`},
		{"PUT", "/debug/flags/v", "0", 200, "successfully set klog.logging.verbosity to 0\n"},
	} {
		if resp, text := f.with(t, c.method, c.path, c.body); resp.StatusCode != c.code ||
			!strings.Contains(text, c.text) {
			t.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, text)
		}
	}
	if resp, _ := start(t).with(t, "GET", "/debug/flags/v", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without profiling: %d", resp.StatusCode)
	}
}

// TestFirstObjectsAreManaged by the same managers as upstream.
func TestFirstObjectsAreManaged(t *testing.T) {
	f := start(t, func(c *options.Config) { c.PriorityAndFairness, c.MaxRequestsInFlight = true, 400 })
	for path, want := range map[string]string{
		"/api/v1/namespaces/default":                                               "kube-apiserver",
		"/api/v1/namespaces/default/services/kubernetes":                           "kube-apiserver",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/view":                     "kube-apiserver",
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin":     "kube-apiserver",
		"/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical":          "kube-apiserver",
		"/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1":                          "kube-apiserver",
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.apps":                      "kube-apiserver",
		"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/exempt": "api-priority-and-fairness-config-producer-v1",
	} {
		_, text := f.with(t, "GET", path, "")
		var obj metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(text), &obj); err != nil {
			t.Fatal(err)
		}
		if m := obj.ManagedFields; len(m) != 1 || m[0].Manager != want ||
			m[0].Operation != metav1.ManagedFieldsOperationUpdate || m[0].Time.IsZero() || m[0].FieldsV1 == nil {
			t.Errorf("%s: %+v", path, m)
		}
	}
}
