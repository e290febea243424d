package handlers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"quintet.dev/quintet/components/apiserver/codec"
)

const (
	asYAMLBody = "application/yaml"
	asProtobuf = "application/vnd.kubernetes.protobuf"
	asCBOR     = "application/cbor"
)

// TestBodies: the same object is read from all formats, and answered in the one that is asked for.
func TestBodies(t *testing.T) {
	s := serve(t, func(c *Config) { c.CBOR = true; c.Codec = codec.NewCodec(c.Scheme) }, "configmaps")
	obj := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		Data: map[string]string{"k": "v"}}
	encoded := func(name, media string) string {
		obj.Name = name
		switch media {
		case asYAMLBody:
			return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {k: v} # a comment\n"
		case asProtobuf:
			body, err := codec.Body(obj, corev1.SchemeGroupVersion.WithKind("ConfigMap"), codec.Protobuf)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := codec.WriteObject(&out, codec.Protobuf, corev1.SchemeGroupVersion.WithKind("ConfigMap"),
				body); err != nil {
				t.Fatal(err)
			}
			return out.String()
		case asCBOR:
			out, err := direct.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": name}, "data": map[string]any{"k": "v"}})
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		out, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for i, media := range []string{"application/json", "application/json; charset=utf-8", asYAMLBody, asProtobuf,
		asCBOR,
		""} {
		name := fmt.Sprint("m", i)
		r := s.must(201, "POST", mapsPath, encoded(name, media), "Content-Type", media)
		if got := r.content(t); got["data"].(map[string]any)["k"] != "v" {
			t.Errorf("%q: %s", media, r.Body)
		}
		if got := r.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%q: answered as %q", media, got)
		}
		for _, accept := range []string{"application/json", asYAMLBody, asProtobuf, asCBOR} {
			r := s.must(200, "GET", mapsPath+"/"+name, "", "Accept", accept)
			if got := r.Header().Get("Content-Type"); got != accept {
				t.Errorf("asked for %q: answered as %q", accept, got)
			}
		}
	}
}

// TestUnreadableBodies: what can't be read is refused in upstream's words, before anything is done.
func TestUnreadableBodies(t *testing.T) {
	s := serve(t, nil, "configmaps", "deployments", "horizontalpodautoscalers")
	const accepted = "the body of the request was in an unknown format - accepted media types include: "
	post := func(body, code string, message string, headers ...string) refusal {
		c := map[string]struct {
			code   int
			reason metav1.StatusReason
		}{"bad": {400, metav1.StatusReasonBadRequest}, "type": {415, metav1.StatusReasonUnsupportedMediaType},
			"large": {413, metav1.StatusReasonRequestEntityTooLarge}}[code]
		return refusal{"POST", mapsPath, body, headers, c.code, c.reason, message}
	}
	s.refused(map[string]refusal{
		"no media type that is known": post("{}", "type", accepted+
			"application/json, application/yaml, application/vnd.kubernetes.protobuf", "Content-Type", "text/plain"),
		"CBOR where it is off": post("{}", "type", accepted+
			"application/json, application/yaml, application/vnd.kubernetes.protobuf", "Content-Type", asCBOR),
		"nothing": post("", "bad", `the object provided is unrecognized (must be of type ConfigMap): couldn't get `+
			`version/kind; json parse error: unexpected end of JSON input (<empty>)`),
		"half of it": post(`{"kind":"ConfigMap","apiVersion":"v1"`, "bad",
			`the object provided is unrecognized (must be of `+
				`type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input `+
				`({"kind":"ConfigMap","apiVersio ...)`),
		"a list": post(`[]`, "bad", `the object provided is unrecognized (must be of type ConfigMap): couldn't get `+
			`version/kind; json parse error: json: cannot unmarshal array into Go value of type struct `+
			`{ APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)`),
		"a wrong type": post(`{"kind":"ConfigMap","apiVersion":"v1","data":{"k":1}}`, "bad",
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go `+
				`struct field `+
				`ConfigMap.data of type string`),
		"another kind": post(`{"kind":"Secret","apiVersion":"v1"}`, "bad",
			`Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): `+
				`unknown conversion`),
		"an unknown kind": post(`{"kind":"Chair","apiVersion":"v1"}`, "bad",
			`Chair in version "v1" cannot be handled as a ConfigMap: no kind "Chair" is registered for version `+
				`"v1" in scheme `+
				`"pkg/runtime/scheme.go:111"`),
		"no protobuf": post("{}", "bad",
			`the object provided is unrecognized (must be of type ConfigMap): provided data `+
				`does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})`, "Content-Type",
			asProtobuf),
		"too large": post(`{"data":{"k":"`+strings.Repeat("x", 3<<20)+`"}}`, "large",
			"Request entity too large: limit is 3145728"),
		"another version": {"POST", "/apis/autoscaling/v1/namespaces/a/horizontalpodautoscalers",
			`{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","metadata":{"name":"x"}}`, nil, 400,
			metav1.StatusReasonBadRequest,
			"the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)"},
		"another group": {"POST", "/apis/apps/v1/namespaces/a/deployments",
			`{"kind":"Deployment","apiVersion":"extensions/v1beta1"}`, nil, 400, metav1.StatusReasonBadRequest,
			"the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)"},
	})
}

// endless is a body of unknown length that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// TestBodiesAreBounded: of a body that says nothing of its length no more is read than a request may carry.
func TestBodiesAreBounded(t *testing.T) {
	body := &endless{}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	d := &decoder{exchange: &exchange{r: r, ctx: t.Context(), w: httptest.NewRecorder()}}
	if _, err := d.readBody(); err == nil || err.Error() != "Request entity too large: limit is 3145728" {
		t.Errorf("got %v", err)
	}
	if body.read > maxBody+1<<20 {
		t.Errorf("%d bytes are read", body.read)
	}
	for _, size := range []int{0, 1, maxPreallocBody, maxPreallocBody + 1, maxBody} {
		for _, announced := range []bool{true, false} {
			text := bytes.Repeat([]byte("x"), size)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.NopCloser(bytes.NewReader(text)))
			if r.ContentLength = -1; announced {
				r.ContentLength = int64(size)
			}
			d := &decoder{exchange: &exchange{r: r, ctx: t.Context(), w: httptest.NewRecorder()}}
			if got, err := d.readBody(); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%d bytes, announced %t: %d bytes, %v", size, announced, len(got), err)
			}
		}
	}
	short := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
	short.ContentLength = 10
	d = &decoder{exchange: &exchange{r: short, ctx: t.Context(), w: httptest.NewRecorder()}}
	if body, err := d.readBody(); err == nil {
		t.Errorf("a body that breaks off is read: %q", body)
	}
}

// TestFieldValidation: unknown and duplicate fields are ignored, warned of or refused, as the client asks; it is warned
// by default.
func TestFieldValidation(t *testing.T) {
	s := serve(t, nil, "configmaps")
	body := func(name string, yaml bool) string {
		if yaml {
			return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name +
				", labls: {}}\ndata: {k: v}\ndata: {k: w}\nspec: 1\n"
		}
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name +
			`","labls":{}},"data":{"k":"v","k":"w"},` +
			`"spec":1}`
	}
	texts := map[bool][]string{
		false: {`duplicate field "data.k"`, `unknown field "metadata.labls"`, `unknown field "spec"`},
		true:  {`line 5: key "data" already set in map`, `unknown field "metadata.labls"`, `unknown field "spec"`},
	}
	strict := map[bool]string{
		false: `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field ` +
			`"metadata.labls", duplicate field "data.k", unknown field "spec"`,
		true: "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: " +
			"unmarshal errors:\n" +
			"  line 5: key \"data\" already set in map, unknown field \"metadata.labls\", unknown field \"spec\"",
	}
	for _, yaml := range []bool{false, true} {
		media := map[bool]string{false: "application/json", true: asYAMLBody}[yaml]
		for query, want := range map[string]int{"": 3, "?fieldValidation=Warn": 3, "?fieldValidation=Ignore": 0} {
			name := strings.ToLower(fmt.Sprintf("m%t%s", yaml, strings.TrimPrefix(query, "?fieldValidation=")))
			r := s.must(201, "POST", mapsPath+query, body(name, yaml), "Content-Type", media)
			got := slices.Sorted(slices.Values(r.warned))
			if len(got) != want || want > 0 && !slices.Equal(got, texts[yaml]) {
				t.Errorf("%s %s: warned %q", media, query, got)
			}
			if k := r.content(t)["data"].(map[string]any)["k"]; k != "w" {
				t.Errorf("%s %s: of two values %v counts", media, query, k)
			}
			r = s.must(200, "PUT", mapsPath+"/"+name+query, body(name, yaml), "Content-Type", media)
			if len(r.warned) != want {
				t.Errorf("%s %s: an update warned %q", media, query, r.warned)
			}
		}
		s.refused(map[string]refusal{
			"a creation": {"POST", mapsPath + "?fieldValidation=Strict", body("strict", yaml), []string{"Content-Type",
				media}, 400,
				metav1.StatusReasonBadRequest, strict[yaml]},
			"an update": {"PUT", mapsPath + "/mtrue?fieldValidation=Strict", body("mtrue", yaml),
				[]string{"Content-Type", media}, 400, metav1.StatusReasonBadRequest, strict[yaml]},
		})
	}
	s.must(201, "POST", mapsPath+"?fieldValidation=Strict",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"fine"}}`)
}

// TestBodiesWithoutKind: the path says what an object is that doesn't say it itself.
func TestBodiesWithoutKind(t *testing.T) {
	s := serve(t, nil, "configmaps")
	for i, body := range []string{
		`{"metadata":{"name":"m0"}}`, `{"kind":"ConfigMap","metadata":{"name":"m1"}}`,
		`{"apiVersion":"v1","metadata":{"name":"m2"}}`,
	} {
		got := s.must(201, "POST", mapsPath, body).content(t)
		if got["kind"] != "ConfigMap" || got["apiVersion"] != "v1" {
			t.Errorf("%d: %v", i, got)
		}
	}
}

func TestSummary(t *testing.T) {
	for body, want := range map[string]string{
		"": "<empty>", "{}": "{}", "ab": "6162",
		"{" + strings.Repeat("x", 29): "{" + strings.Repeat("x", 29),
		"{" + strings.Repeat("x", 30): "{" + strings.Repeat("x", 29) + " ...",
		strings.Repeat("a", 31):       strings.Repeat("61", 30) + " ...",
	} {
		if got := summary([]byte(body)); got != want {
			t.Errorf("%q: %s", body, got)
		}
	}
}
