package handlers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"quintet.dev/quintet/components/apiserver/codec"
)

const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

const podsPath = "/api/v1/namespaces/a/pods"

const podBody = `{"metadata":{"name":"p","labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"},` +
	`{"name":"d","image":"i"}],"tolerations":[{"key":"k","operator":"Exists"}]}}`

// at returns what is at a path of names and indices in JSON.
func at(content any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			below, _ := content.(map[string]any)
			content = below[step]
		case int:
			list, _ := content.([]any)
			if step >= len(list) {
				return nil
			}
			content = list[step]
		}
	}
	return content
}

// TestPatchKinds: what each kind of patch means for the same fields.
func TestPatchKinds(t *testing.T) {
	s := serve(t, nil, "pods")
	s.must(201, "POST", podsPath, podBody)
	image, labels := []any{"spec", "containers", 0, "image"}, []any{"metadata", "labels"}
	for _, c := range []struct {
		kind, body string
		path       []any
		want       string
	}{
		{jsonPatch, `[{"op":"replace","path":"/spec/containers/0/image","value":"j"}]`, image, "j"},
		{jsonPatch, `[{"op":"add","path":"/metadata/labels/a~1b","value":"1"}]`, labels, "map[a/b:1 app:x]"},
		{jsonPatch, `[{"op":"test","path":"/metadata/labels/app","value":"x"},` +
			`{"op":"remove","path":"/metadata/labels/a~1b"}]`, labels, "map[app:x]"},
		{mergePatch, `{"metadata":{"labels":{"b":"2","app":null}}}`, labels, "map[b:2]"},
		{strategicPatch, `{"metadata":{"labels":{"c":"3"}}}`, labels, "map[b:2 c:3]"},
		{strategicPatch, `{"spec":{"containers":[{"name":"c","image":"k"}]}}`, image, "k"},
		{strategicPatch, `{"metadata":{"labels":{"$patch":"replace","d":"4"}}}`, labels, "map[d:4]"},
		{strategicPatch, `{"metadata":{"labels":null}}`, labels, "<nil>"},
	} {
		r := s.must(200, "PATCH", podsPath+"/p", c.body, "Content-Type", c.kind)
		if got := fmt.Sprint(at(r.content(t), c.path...)); got != c.want {
			t.Errorf("%s: %s: %s, want %s", c.kind, c.body, got, c.want)
		}
		if n := len(at(r.content(t), "spec", "containers").([]any)); n != 2 {
			t.Errorf("%s: %s: %d containers", c.kind, c.body, n)
		}
	}
	before := s.must(200, "GET", podsPath+"/p", "").Body.String()
	for kind, body := range map[string]string{jsonPatch: `[]`, mergePatch: `{}`, strategicPatch: `{}`} {
		if got := s.must(200, "PATCH", podsPath+"/p", body, "Content-Type", kind).Body.String(); got != before {
			t.Errorf("%s: nothing becomes %s", kind, got)
		}
	}
}

// TestBadPatches: what is wrong with a patch, or with what it makes, is told in upstream's words.
func TestBadPatches(t *testing.T) {
	s := serve(t, nil, "pods", "configmaps")
	s.must(201, "POST", podsPath, podBody)
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"x"},"data":{"k":"v"}}`)
	patch := func(kind, body string, code int, reason metav1.StatusReason, message string) refusal {
		return refusal{"PATCH", mapPath, body, []string{"Content-Type", kind}, code, reason, message}
	}
	many := "[" + strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 10000) +
		`{"op":"test","path":"/kind","value":"ConfigMap"}]`
	const bad, invalid = metav1.StatusReasonBadRequest, metav1.StatusReasonInvalid
	s.refused(map[string]refusal{
		"JSON patch: no JSON": patch(jsonPatch, `[`, 400, bad, "error decoding patch: unexpected end of JSON input"),
		"JSON patch: an object": patch(jsonPatch, `{}`, 400, bad,
			"error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
		"JSON patch: a test that fails": patch(jsonPatch, `[{"op":"test","path":"/data/k","value":"w"}]`, 422, invalid,
			"the server rejected our request due to an error in our request"),
		"JSON patch: no such path": patch(jsonPatch, `[{"op":"remove","path":"/data/none"}]`, 422, invalid,
			"the server rejected our request due to an error in our request"),
		"JSON patch: an unknown operation": patch(jsonPatch, `[{"op":"odd","path":"/data/k"}]`, 422, invalid,
			"the server rejected our request due to an error in our request"),
		"JSON patch: too many operations": patch(jsonPatch, many, 413, metav1.StatusReasonRequestEntityTooLarge,
			"Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"),
		"merge patch: no JSON": patch(mergePatch, `{`, 400, bad, "error decoding patch: unexpected end of JSON input"),
		"merge patch: a list": patch(mergePatch, `[]`, 400, bad,
			"error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
		"strategic: no JSON": patch(strategicPatch, `{`, 400, bad, "unexpected end of JSON input"),
		"strategic: a directive that is none": patch(strategicPatch, `{"data":{"$patch":"odd"}}`, 500, "",
			"unknown patch type: odd in map: map[$patch:odd]"),
		"another name": patch(mergePatch, `{"metadata":{"name":"y"}}`, 400, bad,
			"the name of the object (y) does not match the name on the URL (x)"),
		"another namespace": patch(mergePatch, `{"metadata":{"namespace":"b"}}`, 400, bad,
			"the namespace of the provided object does not match the namespace sent on the request"),
		"another version": patch(mergePatch, `{"metadata":{"resourceVersion":"1"}}`, 409, metav1.StatusReasonConflict,
			`Operation cannot be fulfilled on configmaps "x": the object has been modified; please apply your `+
				`changes to `+
				`the latest version and try again`),
		"something invalid": patch(mergePatch, `{"data":{"a b":"1"}}`, 422, invalid,
			`ConfigMap "x" is invalid: data[a b]: `+
				`Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. `+
				`'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`),
		"nothing that is there": {"PATCH", mapsPath + "/none", `{}`, []string{"Content-Type", mergePatch}, 404,
			metav1.StatusReasonNotFound, `configmaps "none" not found`},
		"no kind of patch": {"PATCH", mapPath, `{}`, []string{"Content-Type", "application/json"}, 415,
			metav1.StatusReasonUnsupportedMediaType, "415: Unsupported Media Type"},
	})
	typed := s.do("PATCH", mapPath, `{"data":{"k":1}}`, "Content-Type", mergePatch)
	if got := typed.status(); got.Code != 422 || got.Details == nil || len(got.Details.Causes) != 1 ||
		got.Details.Causes[0].Field != "patch" || !strings.Contains(got.Message,
		"json: cannot unmarshal number into Go struct field ConfigMap.data of type string") {
		t.Errorf("a wrong type: %+v", got)
	}
}

// TestStrictPatches: unknown and duplicate fields of patches are ignored, warned of or refused.
func TestStrictPatches(t *testing.T) {
	s := serve(t, nil, "configmaps")
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"x"},"data":{"k":"v"}}`)
	for name, c := range map[string]struct {
		kind, body string
		warned     []string
		refused    string
	}{
		"JSON patch": {jsonPatch, `[{"op":"add","path":"/spec","value":1,"note":"n"}]`,
			[]string{`json patch unknown field "[0].note"`, `unknown field "spec"`},
			`json patch unknown field "[0].note", ` +
				`unknown field "spec"`},
		"merge patch": {mergePatch, `{"data":{"a":"1","a":"2"},"spec":1}`,
			[]string{`duplicate field "data.a"`, `unknown field "spec"`},
			`duplicate field "data.a", unknown field "spec"`},
		"strategic patch": {strategicPatch, `{"data":{"b":"1","b":"2"},"spec":1}`,
			[]string{`duplicate field "data.b"`, `unknown field "spec"`},
			`duplicate field "data.b", unknown field "spec"`},
	} {
		r := s.do("PATCH", mapPath+"?fieldValidation=Strict", c.body, "Content-Type", c.kind)
		if got := r.status(); got.Code != 422 || !strings.HasSuffix(got.Message, "strict decoding error: "+c.refused) {
			t.Errorf("%s: %d %s", name, got.Code, got.Message)
		}
		if r := s.must(200, "PATCH", mapPath+"?fieldValidation=Ignore", c.body, "Content-Type",
			c.kind); r.warned != nil {
			t.Errorf("%s: ignored, warned %q", name, r.warned)
		}
		r = s.must(200, "PATCH", mapPath, c.body, "Content-Type", c.kind)
		if got := slices.Sorted(slices.Values(r.warned)); !slices.Equal(got, c.warned) {
			t.Errorf("%s: warned %q", name, got)
		}
	}
}

// TestApplies: an apply creates what isn't there, owns what it says, loses what it no longer says, and changes nothing
// when it is done again.
func TestApplies(t *testing.T) {
	s := serve(t, func(c *Config) { c.CBOR = true; c.Codec = codec.NewCodec(c.Scheme) }, "configmaps")
	apply := func(code int, manager, body string) *reply {
		t.Helper()
		return s.must(code, "PATCH", mapPath+"?fieldManager="+manager, body, "Content-Type", applyPatch)
	}
	const first = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: '1', b: '2'}\n"
	made := apply(201, "one", first)
	if again := apply(200, "one", first); again.Body.String() != made.Body.String() {
		t.Errorf("applied again:\n%s\n%s", made.Body, again.Body)
	}
	apply(200, "two", "apiVersion: v1\nkind: ConfigMap\ndata: {c: '3', a: '1'}\n")
	less := apply(200, "one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
	if got := fmt.Sprint(at(less.content(t), "data")); got != "map[a:1 c:3]" {
		t.Errorf("what one no longer says: %s", got)
	}
	cborBody, err := direct.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{"d": "4"}})
	if err != nil {
		t.Fatal(err)
	}
	r := s.must(200, "PATCH", mapPath+"?fieldManager=three", string(cborBody), "Content-Type",
		"application/apply-patch+cbor")
	if got := fmt.Sprint(at(r.content(t), "data")); got != "map[a:1 c:3 d:4]" {
		t.Errorf("as CBOR: %s", got)
	}
}

// TestBadApplies: conflicts and faults of applies, with their causes.
func TestBadApplies(t *testing.T) {
	s := serve(t, nil, "configmaps", "deployments")
	const object = "apiVersion: v1\nkind: ConfigMap\n"
	s.must(201, "PATCH", mapPath+"?fieldManager=one", object+"metadata: {name: x}\ndata: {a: '1'}\n", "Content-Type",
		applyPatch)
	apply := func(path, body string, code int, reason metav1.StatusReason, message string) refusal {
		return refusal{"PATCH", path, body, []string{"Content-Type", applyPatch}, code, reason, message}
	}
	const bad, strict = metav1.StatusReasonBadRequest, mapPath + "?fieldManager=two&fieldValidation=Strict"
	two := mapPath + "?fieldManager=two"
	s.refused(map[string]refusal{
		"a conflict": apply(two, object+"data: {a: '2'}\n", 409, metav1.StatusReasonConflict,
			`Apply failed with 1 conflict: conflict with "one": .data.a`),
		"no YAML": apply(two, "a: [", 400, bad,
			"error decoding YAML: error converting YAML to JSON: yaml: line 1: did not find "+
				"expected node content"),
		"a list": apply(two, "[]", 400, bad,
			"error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "+
				"unmarshal array into Go value of type map[string]interface {}"),
		"a field twice": apply(strict, object+"data: {a: '1', a: '1'}\n", 400, bad,
			"error strict decoding YAML: error "+
				"converting YAML to JSON: yaml: unmarshal errors:\n  line 3: key \"a\" already set in map"),
		"no kind": apply(two, "apiVersion: v1\n", 400, bad,
			"invalid object type: /v1, Kind="),
		"another name": apply(two, object+"metadata: {name: z}\n", 400, bad,
			"the name of the object (z) does not match the name on the URL (x)"),
		"managed fields": apply(two, object+"metadata: {managedFields: [{manager: m}]}\n", 400, bad,
			"metadata.managedFields must be nil"),
		"an identity of what isn't there": apply(mapsPath+"/none?fieldManager=two", object+"metadata: {uid: u}\n", 409,
			metav1.StatusReasonConflict,
			`Operation cannot be fulfilled on configmaps "none": uid mismatch: the provided `+
				`object specified uid u, and no existing object was found`),
		"a status of what isn't there": apply("/apis/apps/v1/namespaces/a/deployments/none/status?fieldManager=two",
			"apiVersion: apps/v1\nkind: Deployment\n", 404, metav1.StatusReasonNotFound,
			`deployments.apps "none" not found`),
	})
	r := s.do("PATCH", two, object+"data: {a: '2'}\n", "Content-Type", applyPatch)
	if d := r.status().Details; d == nil || len(d.Causes) != 1 ||
		d.Causes[0].Type != metav1.CauseTypeFieldManagerConflict ||
		d.Causes[0].Field != ".data.a" || d.Causes[0].Message != `conflict with "one"` {
		t.Errorf("causes %+v", d)
	}
	forced := s.must(200, "PATCH", two+"&force=true", object+"data: {a: '2'}\n", "Content-Type", applyPatch)
	if got := at(forced.content(t), "data", "a"); got != "2" {
		t.Errorf("by force: %v", got)
	}
	warned := s.must(200, "PATCH", two, object+"data: {a: '2', a: '2'}\n", "Content-Type", applyPatch).warned
	if !slices.Equal(warned, []string{`line 3: key "a" already set in map`}) {
		t.Errorf("warned %q", warned)
	}
}

// TestVersionless: JSON that has lost its version is that of a type of which nothing is known.
func TestVersionless(t *testing.T) {
	for text, want := range map[string]string{
		`{"apiVersion":"v1"}`: "no", `[]`: "no", `null`: "no", `{"kind":1}`: "no",
		`{}`: "", `{"kind":"Pod"}`: "", `{"apiVersion":""}`: "", `{"apiVersion":null,"kind":null}`: "",
		`{"spec":1,"data":2}`: `unknown field "data"; unknown field "spec"`,
	} {
		problems, ok := versionless([]byte(text))
		var got []string
		for _, p := range problems {
			got = append(got, p.Error())
		}
		if told := strings.Join(got, "; "); ok != (want != "no") || ok && told != want {
			t.Errorf("%s: %t, %s", text, ok, told)
		}
	}
}

// TestPatchMedia: which kinds of patches there are depends on the resource and on CBOR.
func TestPatchMedia(t *testing.T) {
	plain, withCBOR := newForms(false), newForms(true)
	for _, c := range []struct {
		forms []string
		want  int
	}{{plain.patches, 4}, {plain.customPatches, 3}, {withCBOR.patches, 5}, {withCBOR.customPatches, 4}} {
		if len(c.forms) != c.want || slices.Contains(c.forms, "application/json") {
			t.Errorf("%q", c.forms)
		}
	}
	if slices.Contains(plain.customPatches, strategicPatch) {
		t.Error("custom resources are patched by the tags of their Go type")
	}
}
