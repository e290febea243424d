package apiserver_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// exchange is a request as it goes over the wire, and what is expected of the response.
type exchange struct {
	method, path, accept, content, body string

	code    int32
	reason  metav1.StatusReason
	message string
}

// send makes a request without any help of a client library.
func (f *fixture) exchange(t *testing.T, e exchange) (*http.Response, []byte) {
	t.Helper()
	client, err := rest.HTTPClientFor(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), e.method, "https://"+f.server.Addr().String()+e.path,
		strings.NewReader(e.body))
	if err != nil {
		t.Fatal(err)
	}
	if e.accept != "" {
		r.Header.Set("Accept", e.accept)
	}
	if e.content != "" {
		r.Header.Set("Content-Type", e.content)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

// What is refused, and how: upstream's codes, reasons and words.
func TestRefusalsOfVerbs(t *testing.T) {
	f := start(t)
	create(t, f.client(t), configMap("there", map[string]string{"k": "v"}))
	const all, one = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/there"
	const notAllowed, notFound = "the server does not allow this method on the requested resource",
		"the server could not find the requested resource"
	const media = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
	for name, e := range map[string]exchange{
		"put of a collection": {method: "PUT", path: all, code: 405, reason: "MethodNotAllowed",
			message: notAllowed},
		"patch of a collection": {method: "PATCH", path: all, code: 405, reason: "MethodNotAllowed",
			message: notAllowed},
		"head": {method: "HEAD", path: one, code: 405},
		"create over namespaces": {method: "POST", path: "/api/v1/configmaps", body: "{}", code: 405,
			reason: "MethodNotAllowed", message: notAllowed},
		"object without namespace": {method: "GET", path: "/api/v1/configmaps/there", code: 404, reason: "NotFound",
			message: notFound},
		"namespace of a node": {method: "GET", path: "/api/v1/namespaces/default/nodes", code: 404,
			reason: "NotFound", message: notFound},
		"name of a review": {method: "POST", path: "/apis/authentication.k8s.io/v1/tokenreviews/x", body: "{}",
			code: 404, reason: "NotFound", message: notFound},
		"version of a known group": {method: "GET", path: "/apis/apps/v9/deployments", code: 404, reason: "NotFound",
			message: notFound},
		"post to a watch": {method: "POST", path: "/api/v1/watch/pods", code: 405, reason: "MethodNotAllowed",
			message: notAllowed},
		"resource version of a get": {method: "GET", path: one + "?resourceVersion=abc", code: 500,
			message: `resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		"resource version of a list": {method: "GET", path: all + "?resourceVersion=-1", code: 400,
			reason:  "BadRequest",
			message: `invalid resource version: resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax`},
		"continue and version": {method: "GET",
			path: all + "?resourceVersion=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhIn0",
			code: 400, reason: "BadRequest",
			message: "specifying resource version is not allowed when using continue"},
		"other name than the path's": {method: "GET",
			path: "/api/v1/watch/namespaces/default/configmaps/there?fieldSelector=metadata.name%3Dx", code: 400,
			reason:  "BadRequest",
			message: "fieldSelector metadata.name doesn't match requested name"},
		"field of a job": {method: "GET", path: "/apis/batch/v1/jobs?fieldSelector=foo%3D1", code: 400,
			reason: "BadRequest", message: `field label "foo" not supported for Job`},
		"field of a pod": {method: "GET", path: "/api/v1/pods?fieldSelector=foo%3D1", code: 400, reason: "BadRequest",
			message: "field label not supported: foo"},
		"export": {method: "GET", path: one + "?export=true", code: 400, reason: "BadRequest",
			message: "the export parameter, deprecated since v1.14, is no longer supported"},
		"no such format": {method: "GET", path: one, accept: "application/cbor", code: 406, reason: "NotAcceptable",
			message: "406: Not Acceptable\n\nAvailable representations: " + media},
		"no such format of a list": {method: "GET", path: all, accept: "text/html", code: 406, reason: "NotAcceptable",
			message: "406: Not Acceptable\n\nAvailable representations: " + media +
				", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"},
		"no such shape": {method: "GET", path: one, accept: "application/json;as=Chair;v=v1;g=meta.k8s.io",
			code: 406, reason: "NotAcceptable", message: "only the following media types are accepted: " + media},
		"format before existence": {method: "GET", path: all + "/gone",
			accept: "application/json;as=Chair;v=v1;g=meta.k8s.io", code: 406, reason: "NotAcceptable",
			message: "only the following media types are accepted: " + media},
		"watch as YAML": {method: "GET", path: all + "?watch=1", accept: "application/yaml", code: 406,
			reason: "NotAcceptable",
			message: "only the following media types are accepted: application/json;stream=watch, " +
				"application/vnd.kubernetes.protobuf;stream=watch"},
		"metadata of a list": {method: "GET", path: all,
			accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", code: 406, reason: "NotAcceptable",
			message: "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"},
		"metadata list of an object": {method: "GET", path: one,
			accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", code: 406,
			reason:  "NotAcceptable",
			message: "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"},
		"kind of patch": {method: "PATCH", path: one, content: "application/json", body: "{}", code: 415,
			reason: "UnsupportedMediaType", message: "415: Unsupported Media Type"},
		"nothing posted": {method: "POST", path: all, code: 400, reason: "BadRequest",
			message: "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse " +
				"error: unexpected end of JSON input (<empty>)"},
		"half an object": {method: "POST", path: all, body: "{", code: 400, reason: "BadRequest",
			message: "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse " +
				"error: unexpected end of JSON input ({)"},
		"version of the new": {method: "POST", path: all, body: `{"metadata":{"name":"new","resourceVersion":"5"}}`,
			code: 500, message: "resourceVersion should not be set on objects to be created"},
		"finalizer": {method: "POST", path: all, body: `{"metadata":{"name":"new","finalizers":["foo"]}}`,
			code: 422, reason: "Invalid",
			message: `ConfigMap "new" is invalid: metadata.finalizers[0]: Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified`},
		"put without a name": {method: "PUT", path: one, body: `{}`, code: 400, reason: "BadRequest",
			message: "the name of the object (there based on URL) was undeterminable: name must be provided"},
		"put of no version": {method: "PUT", path: one, body: `{"metadata":{"name":"there","resourceVersion":"x"}}`,
			code: 500, message: `strconv.ParseUint: parsing "x": invalid syntax`},
		"patch of the name": {method: "PATCH", path: one, content: "application/merge-patch+json",
			body: `{"metadata":{"name":null}}`, code: 400, reason: "BadRequest",
			message: "the name of the object (there based on URL) was undeterminable: name must be provided"},
		"patch of the space": {method: "PATCH", path: one, content: "application/merge-patch+json",
			body: `{"metadata":{"namespace":"x"}}`, code: 400, reason: "BadRequest",
			message: "the namespace of the provided object does not match the namespace sent on the request"},
		"directive": {method: "PATCH", path: one, content: "application/strategic-merge-patch+json",
			body: `{"$patch":"merge"}`, code: 500, message: "unknown patch type: merge in map: map[$patch:merge]"},
		"JSON patch no array": {method: "PATCH", path: one, content: "application/json-patch+json", body: `{}`,
			code: 400, reason: "BadRequest",
			message: "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"},
		"dry run of a shell": {method: "POST", path: "/api/v1/namespaces/default/pods/x/exec?dryRun=All", code: 400,
			reason: "BadRequest", message: "dryRun is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := f.exchange(t, e)
			var status metav1.Status
			if e.method != http.MethodHead {
				if err := yaml.Unmarshal(body, &status); err != nil {
					t.Fatalf("%d %s", response.StatusCode, body)
				}
			}
			if response.StatusCode != int(e.code) || status.Reason != e.reason || status.Message != e.message {
				t.Errorf("got %d %s %q\nwant %d %s %q", response.StatusCode, status.Reason, status.Message, e.code,
					e.reason, e.message)
			}
		})
	}
}

// Upstream's clients know what to make of each of these forms.
func TestForms(t *testing.T) {
	f := start(t)
	create(t, f.client(t), configMap("there", map[string]string{"k": "v"}))
	const one = "/api/v1/namespaces/default/configmaps/there"
	for name, c := range map[string]struct {
		exchange
		begins string
	}{
		"table of old": {exchange{method: "GET", path: one,
			accept: "application/json;as=Table;v=v1beta1;g=meta.k8s.io"},
			`{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1",`},
		"metadata of old": {exchange{method: "GET", path: one,
			accept: "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io"},
			`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1",`},
		"negative limit": {exchange{method: "GET", path: "/api/v1/configmaps?limit=-1"},
			`{"kind":"ConfigMapList","apiVersion":"v1",`},
		"people's error": {exchange{method: "GET", path: one + "x",
			accept: "application/json;as=Table;v=v1;g=meta.k8s.io"}, "{\n  \"kind\": \"Status\","},
		"status of a deletion": {
			exchange{method: "DELETE", path: one + "?dryRun=All",
				accept: "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"},
			`{"kind":"Status","apiVersion":"v1",`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, body := f.exchange(t, c.exchange); !strings.HasPrefix(string(body), c.begins) {
				t.Errorf("got %s", body)
			}
		})
	}
}

// A watch can be had as messages: text for JSON, and binary without lengths for protobuf.
func TestWatchOverWebSocket(t *testing.T) {
	f := start(t)
	create(t, f.client(t), configMap("there", nil))
	for accept, begins := range map[string]string{
		"application/json":                    `{"type":"ADDED","object":{"kind":"ConfigMap",`,
		"application/vnd.kubernetes.protobuf": "\n\x05ADDED\x12",
	} {
		config, err := websocket.NewConfig("wss://"+f.server.Addr().String()+
			"/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Dthere", "https://localhost")
		if err != nil {
			t.Fatal(err)
		}
		tlsConfig, err := rest.TLSConfigFor(f.as("admin"))
		if err != nil {
			t.Fatal(err)
		}
		config.TlsConfig = tlsConfig
		config.Header.Set("Authorization", "Bearer admin")
		config.Header.Set("Accept", accept)
		ws, err := config.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var event []byte
		if err := websocket.Message.Receive(ws, &event); err != nil || !bytes.HasPrefix(event, []byte(begins)) {
			t.Errorf("%s: got %q, %v", accept, event, err)
		}
		_ = ws.Close()
	}
}
