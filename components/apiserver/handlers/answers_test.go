package handlers

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// TestForms: what objects and lists are shown as, by what the client accepts.
func TestForms(t *testing.T) {
	s := serve(t, nil, "configmaps")
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"x","labels":{"a":"1"}},"data":{"k":"v"}}`)
	s.settle()
	partial := func(kind string) string { return "application/json;as=" + kind + ";v=v1;g=meta.k8s.io" }
	for _, c := range []struct {
		path, accept, kind string
		check              func(content map[string]any) bool
	}{
		{mapPath, "", "ConfigMap", func(c map[string]any) bool { return at(c, "data", "k") == "v" }},
		{mapPath, "*/*", "ConfigMap", nil},
		{mapPath, partial("PartialObjectMetadata"), "PartialObjectMetadata", func(c map[string]any) bool {
			return c["data"] == nil && at(c, "metadata", "labels", "a") == "1" && c["apiVersion"] == "meta.k8s.io/v1"
		}},
		{mapsPath, partial("PartialObjectMetadataList"), "PartialObjectMetadataList", func(c map[string]any) bool {
			return at(c, "items", 0, "kind") == "PartialObjectMetadata" && at(c, "items", 0, "data") == nil &&
				at(c, "metadata", "resourceVersion") != ""
		}},
		{mapPath, asTable, "Table", func(c map[string]any) bool {
			return fmt.Sprint(at(c, "rows", 0, "cells")) == "[x 1 0s]" && len(c["columnDefinitions"].([]any)) == 3 &&
				at(c, "rows", 0, "object", "kind") == "PartialObjectMetadata"
		}},
		{mapsPath + "?includeObject=Object", asTable, "Table", func(c map[string]any) bool {
			return at(c, "rows", 0, "object", "data", "k") == "v"
		}},
		{mapsPath + "?includeObject=None", asTable, "Table", func(c map[string]any) bool {
			return at(c, "rows", 0, "object") == nil && at(c, "rows", 0, "cells", 0) == "x"
		}},
		{mapsPath, strings.Replace(asTable, "v=v1", "v=v1beta1", 1), "Table", func(c map[string]any) bool {
			return c["apiVersion"] == "meta.k8s.io/v1beta1"
		}},
		{mapsPath, asTable + ",application/json", "Table", nil},
		{mapsPath, "application/json;as=Chair;v=v1;g=meta.k8s.io,application/json", "ConfigMapList", func(
			c map[string]any) bool {
			return at(c, "items", 0, "kind") == nil && at(c, "items", 0, "data", "k") == "v"
		}},
		{mapsPath + "?labelSelector=a%3D2", "", "ConfigMapList", func(c map[string]any) bool {
			return fmt.Sprint(c["items"]) == "[]"
		}},
	} {
		got := s.must(200, "GET", c.path, "", "Accept", c.accept).content(t)
		if got["kind"] != c.kind || c.check != nil && !c.check(got) {
			t.Errorf("%s as %q: %v", c.path, c.accept, got)
		}
	}
	const named = "only the following media types are accepted: application/json, application/yaml, " +
		"application/vnd.kubernetes.protobuf"
	refuse := func(method, path, accept, message string) refusal {
		return refusal{method, path, "", []string{"Accept", accept}, 406, metav1.StatusReasonNotAcceptable, message}
	}
	const available = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, " +
		"application/vnd.kubernetes.protobuf"
	none := refuse("GET", mapPath, "text/html", available)
	none.reason = metav1.StatusReasonNotAcceptable
	s.refused(map[string]refusal{
		"a form that isn't known":               none,
		"any of a type, which isn't looked for": refuse("GET", mapPath, "application/*", available),
		"an unknown shape": refuse("GET", mapPath, "application/json;as=Chair;v=v1;g=meta.k8s.io",
			named),
		"an unknown version of a shape": refuse("GET", mapPath, "application/json;as=Table;v=v9;g=meta.k8s.io",
			named),
		"a Table as protobuf": refuse("GET", mapPath,
			"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", named),
		"an object as a list": refuse("GET", mapPath, partial("PartialObjectMetadataList"),
			"you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"),
		"a list as an object": refuse("GET", mapsPath, partial("PartialObjectMetadata"),
			"you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"),
		"what goes with rows": {"GET", mapsPath + "?includeObject=Some", "", []string{"Accept", asTable}, 400,
			metav1.StatusReasonBadRequest,
			`Unable to convert to Table as requested: includeObject: Invalid value: "Some": ` +
				`must be 'Metadata', 'Object', 'None', or empty`},
	})
}

// TestPrettyAnswers: JSON is indented for people, who say so or use a browser or curl.
func TestPrettyAnswers(t *testing.T) {
	s := serve(t, nil, "configmaps")
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"x"}}`)
	for _, path := range []string{mapPath, mapsPath, mapsPath + "/none"} {
		for _, accept := range []string{"", asTable} {
			for agent, want := range map[string]bool{"curl/8": true, "Mozilla/5.0 x": true, "Wget/1": true,
				"kubectl/v1": false} {
				if accept == asTable && path == mapsPath+"/none" {
					want = true // a Status has no such form: it is sent to be read by people
				}
				body := s.do("GET", path, "", "User-Agent", agent, "Accept", accept).Body.String()
				if pretty := strings.Contains(body, "\n  \""); pretty != want || !json.Valid([]byte(body)) {
					t.Errorf("%s as %q for %s: %s", path, accept, agent, body)
				}
			}
		}
	}
	for query, want := range map[string]bool{"?pretty=true": true, "?pretty=1": true, "?pretty=false": false,
		"?pretty=x": false, "?pretty": false} {
		body := s.must(200, "GET", mapPath+query, "").Body.String()
		if strings.Contains(body, "\n  \"") != want {
			t.Errorf("%s: %s", query, body)
		}
	}
	if body := s.must(200, "GET", mapPath+"?pretty=false", "", "User-Agent",
		"curl/8").Body.String(); strings.Contains(body,
		"\n  ") {
		t.Errorf("curl, which doesn't want it: %s", body)
	}
}

// TestCompression: large answers are compressed for those who take them so, and are the same then.
func TestCompression(t *testing.T) {
	s := serve(t, nil, "configmaps")
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"x"},"data":{"k":"`+strings.Repeat("v", 200<<10)+`"}}`)
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"small"}}`)
	s.settle()
	for _, c := range []struct {
		path, accept string
		zipped       bool
	}{{mapPath, "", true}, {mapsPath, "", true}, {mapsPath + "/small", "", false}, {mapPath, asYAMLBody, true},
		{mapsPath, asProtobuf, true}, {mapsPath + "?includeObject=Object", asTable, true},
		{mapsPath + "?pretty=1", "", true}} {
		plain := s.must(200, "GET", c.path, "", "Accept", c.accept)
		zipped := s.must(200, "GET", c.path, "", "Accept", c.accept, "Accept-Encoding", "gzip")
		if got := plain.Header().Get("Content-Encoding"); got != "" {
			t.Errorf("%s: encoded as %q", c.path, got)
		}
		text := zipped.Body.String()
		if encoded := zipped.Header().Get("Content-Encoding") == "gzip"; encoded != c.zipped ||
			encoded && zipped.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: compressed %t, %v", c.path, encoded, zipped.Header())
		} else if encoded {
			z, err := gzip.NewReader(zipped.Body)
			if err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			text = string(all)
		}
		if text != plain.Body.String() {
			t.Errorf("%s as %q: the answers differ", c.path, c.accept)
		}
		if n := plain.Header().Get("Content-Length"); !c.zipped && n != fmt.Sprint(plain.Body.Len()) {
			t.Errorf("%s: the length is %q", c.path, n)
		}
	}
	off := serve(t, func(c *Config) { c.NoCompression = true }, "configmaps")
	off.must(201, "POST", mapsPath, `{"metadata":{"name":"x"},"data":{"k":"`+strings.Repeat("v", 200<<10)+`"}}`)
	for _, path := range []string{mapPath, mapsPath} {
		if r := off.must(200, "GET", path, "", "Accept-Encoding", "gzip"); r.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed though that is off", path)
		}
	}
}

// TestDeletions: what is gone is told by a Status or shown as it was, by its kind; what stays is shown as it is.
func TestDeletions(t *testing.T) {
	s := serve(t, nil, "configmaps", "pods", "serviceaccounts", "jobs")
	const accounts = "/api/v1/namespaces/a/serviceaccounts"
	made := s.must(201, "POST", mapsPath, `{"metadata":{"name":"x"}}`).content(t)
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"held","finalizers":["example.com/f"]}}`)
	s.must(201, "POST", accounts, `{"metadata":{"name":"x"}}`)
	s.must(201, "POST", podsPath, strings.Replace(podBody, `"spec":{`, `"spec":{"nodeName":"n",`, 1))
	r := s.must(200, "DELETE", mapPath, "")
	if got := r.status(); got.Status != metav1.StatusSuccess || got.Code != 0 || got.Details.Name != "x" ||
		got.Details.Kind != "configmaps" || string(got.Details.UID) != at(made, "metadata", "uid") {
		t.Errorf("gone: %s", r.Body)
	}
	if got := s.must(200, "DELETE", accounts+"/x", "").content(t); got["kind"] != "ServiceAccount" {
		t.Errorf("of a kind that is shown: %v", got)
	}
	if got := s.must(200, "DELETE", mapsPath+"/held", "").content(t); got["kind"] != "ConfigMap" ||
		at(got, "metadata", "deletionTimestamp") != "2026-01-01T00:00:00Z" {
		t.Errorf("held: %v", got)
	}
	if got := s.must(202, "DELETE", mapsPath+"/held",
		`{"orphanDependents":false}`).content(t); got["kind"] != "ConfigMap" {
		t.Errorf("held, for those who wait: %v", got)
	}
	options := `{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":7}`
	pod := s.must(200, "DELETE", podsPath+"/p", options).content(t)
	if got := at(pod, "metadata", "deletionGracePeriodSeconds"); got != float64(7) {
		t.Errorf("a grace period in the body: %v", got)
	}
	pod = s.must(200, "DELETE", podsPath+"/p?gracePeriodSeconds=3", "").content(t)
	if got := at(pod, "metadata", "deletionGracePeriodSeconds"); got != float64(3) {
		t.Errorf("a grace period in the query: %v", got)
	}
	const jobs = "/apis/batch/v1/namespaces/a/jobs"
	const job = `{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c",` +
		`"image":"i"}]}}}}`
	const told = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to " +
		"remove " +
		"them or set propagationPolicy=Orphan to suppress this warning"
	for query, want := range map[string]string{"": told, "?propagationPolicy=Background": ""} {
		s.must(201, "POST", jobs, job)
		r := s.must(200, "DELETE", jobs+"/j"+query, "")
		if got := strings.Join(r.warned, "; "); got != want {
			t.Errorf("%q: warned %q", query, got)
		}
		if query == "" {
			s.must(200, "PATCH", jobs+"/j", `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch)
		}
	}
	s.refused(map[string]refusal{
		"options that can't be read": {"DELETE", podsPath + "/p", "[]", nil, 400, metav1.StatusReasonBadRequest,
			`couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct ` +
				`{ APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`},
		"options of another form": {"DELETE", podsPath + "/p", "{}", []string{"Content-Type", "text/plain"}, 415,
			metav1.StatusReasonUnsupportedMediaType,
			"the body of the request was in an unknown format - accepted media types " +
				"include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		"another than is meant": {"DELETE", podsPath + "/p", `{"preconditions":{"resourceVersion":"1"}}`, nil, 409,
			metav1.StatusReasonConflict,
			fmt.Sprintf(`Operation cannot be fulfilled on Pod "p": the ResourceVersion in the `+
				`precondition (1) does not match the ResourceVersion in record (%s). The object might have been `+
				`modified`,
				at(pod, "metadata", "resourceVersion"))},
	})
}

// TestDeleteCollections: what was deleted is listed, and what isn't chosen stays.
func TestDeleteCollections(t *testing.T) {
	s := serve(t, nil, "configmaps", "namespaces")
	for _, name := range []string{"x", "y", "z"} {
		s.must(201, "POST", mapsPath, `{"metadata":{"name":"`+name+`","labels":{"n":"`+name+`"}}}`)
	}
	dry := s.must(200, "DELETE", mapsPath+"?dryRun=All", "")
	if got := names(t, dry); got != "x y z" || names(t, s.must(200, "GET", mapsPath, "")) != "x y z" {
		t.Errorf("a dry run: %s", dry.Body)
	}
	r := s.must(200, "DELETE", mapsPath+"?labelSelector=n+in+(x,y)", "")
	if got := r.content(t); names(t, r) != "x y" || got["kind"] != "ConfigMapList" {
		t.Errorf("deleted %s", r.Body)
	}
	if got := names(t, s.must(200, "GET", mapsPath, "")); got != "z" {
		t.Errorf("left %q", got)
	}
	s.must(200, "DELETE", mapsPath, `{"kind":"DeleteOptions","apiVersion":"v1"}`)
	if got := names(t, s.must(200, "GET", mapsPath, "")); got != "" {
		t.Errorf("left %q", got)
	}
	s.refused(map[string]refusal{
		"of all namespaces": {"DELETE", "/api/v1/configmaps", "", nil, 405, metav1.StatusReasonMethodNotAllowed,
			"the server does not allow this method on the requested resource"},
		"of what can't be": {"DELETE", "/api/v1/namespaces", "", nil, 405, metav1.StatusReasonMethodNotAllowed,
			"the server does not allow this method on the requested resource"},
	})
}
