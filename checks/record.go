package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// recorded is a request for one object, and which object.
type recorded struct {
	Request
	path string // of the object in the API; "" before the server has named it
	uid  types.UID
}

// observer is told of a request before it is sent. What it returns is called once with the answer, and with what that
// says of the object.
type observer func(recorded) func(Response, recorded)

// record returns a configuration whose requests for single objects are observed.
func record(config *rest.Config, observe observer) *rest.Config {
	out := rest.CopyConfig(config)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recorder{next: next, observe: observe} })
	return out
}

type recorder struct {
	next    http.RoundTripper
	observe observer
}

// WrappedRoundTripper lets client-go find the transport that is wrapped.
func (t *recorder) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	asked, r, err := requestOf(r)
	if err != nil {
		return nil, fmt.Errorf("record a request: %w", err)
	}
	if asked.Verb == "" {
		return t.next.RoundTrip(r)
	}
	end := t.observe(asked)
	response, err := t.next.RoundTrip(r)
	if err != nil {
		end(Response{Outcome: Unknown}, asked)
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		end(Response{Outcome: Unknown}, asked)
		response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failed{err}))
		return response, nil
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	answer, about := responseTo(asked, response, body)
	end(answer, about)
	return response, nil
}

// failed is the end of a body that broke off.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

var requests = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// requestOf is what a request does, without a verb if it is not for one object. The request that it returns has the
// body again.
func requestOf(r *http.Request) (recorded, *http.Request, error) {
	info, err := requests.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest || info.Subresource != "" && info.Subresource != "status" {
		return recorded{}, r, nil
	}
	out := recorded{path: strings.TrimSuffix(r.URL.Path, "/status")}
	switch info.Verb {
	case "get":
		out.Verb = Get
	case "create":
		out.Verb, out.path = Create, ""
	case "update":
		out.Verb = Update
	case "patch":
		out.Verb = Update
		if strings.HasPrefix(r.Header.Get("Content-Type"), string(types.ApplyYAMLPatchType)) {
			out.Verb = Apply
		}
	case "delete":
		out.Verb = Delete
	default:
		return recorded{}, r, nil
	}
	if query := r.URL.Query(); query.Get("dryRun") != "" || out.Verb == Get && query.Get("resourceVersion") != "" {
		return recorded{}, r, nil // writes nothing; may be answered from the past
	}
	if r.Body != nil && r.Body != http.NoBody {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return recorded{}, r, err
		}
		r = r.Clone(r.Context())
		r.Body, r.GetBody = io.NopCloser(bytes.NewReader(body)), func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(body)), nil
		}
		out.readBody(body, r)
	}
	out.Key = out.path
	return out, r, nil
}

// readBody fills in the precondition of a write, and the path of an object that is created.
func (r *recorded) readBody(body []byte, of *http.Request) {
	if r.Verb == Delete {
		var options metav1.DeleteOptions
		if decode(body, of.Header.Get("Content-Type"), &options) == nil && options.Preconditions != nil &&
			options.Preconditions.ResourceVersion != nil {
			r.Version, _ = versionOf(&metav1.ObjectMeta{ResourceVersion: *options.Preconditions.ResourceVersion})
		}
		return
	}
	var obj metav1.PartialObjectMetadata
	if decode(body, of.Header.Get("Content-Type"), &obj) != nil {
		return // a JSON patch, which names no version
	}
	if r.Verb == Create && obj.Name != "" {
		r.path = of.URL.Path + "/" + obj.Name
	}
	if r.Verb != Create && obj.ResourceVersion != "" {
		r.Version, _ = versionOf(&obj)
	}
}

// responseTo reads an answer, and what it says of the object.
func responseTo(asked recorded, response *http.Response, body []byte) (Response, recorded) {
	media := response.Header.Get("Content-Type")
	if code := response.StatusCode; code >= 300 {
		return Response{Outcome: failure(asked.Verb, code, body, media)}, asked
	}
	var obj metav1.PartialObjectMetadata
	switch err := decode(body, media, &obj); {
	case err != nil:
		return Response{Outcome: Unknown}, asked
	case obj.Kind == "Status" && obj.APIVersion == "v1":
		return Response{Outcome: Done}, asked
	}
	if response.StatusCode == http.StatusCreated && asked.Verb == Update {
		asked.Verb = Apply // some kinds are made by updates, too
	}
	asked.uid = obj.UID
	if asked.path == "" { // the server has made its name
		asked.path = response.Request.URL.Path + "/" + obj.Name
		asked.Key = asked.path
	}
	version, err := versionOf(&obj)
	if err != nil {
		return Response{Outcome: Unknown}, asked
	}
	gone := asked.Verb == Delete || asked.Verb != Get && obj.DeletionTimestamp != nil && len(obj.Finalizers) == 0
	return Response{Outcome: Done, Version: version, MayBeGone: gone}, asked
}

// failure is the outcome of a request that was answered by an error.
func failure(verb Verb, code int, body []byte, contentType string) Outcome {
	var s metav1.Status
	if code >= 500 || decode(body, contentType, &s) != nil {
		return Unknown
	}
	switch {
	case injected(s), code != http.StatusNotFound && code != http.StatusConflict:
		return Refused
	case code == http.StatusNotFound && verb == Create: // its namespace, or the kind
		return Refused
	case code == http.StatusNotFound:
		return NotFound
	case s.Reason == metav1.StatusReasonAlreadyExists:
		return Exists
	default:
		return Conflict
	}
}

// injected tells errors of package faults, which are not the server's.
func injected(s metav1.Status) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse && c.Message == "injected fault"
	})
}

// decode reads a body of any of the API's media types.
func decode(body []byte, contentType string, into any) error {
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case strings.HasSuffix(media, "protobuf"):
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return err
		}
		// What was decoded has no kind of its own any more.
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			return err
		}
		u := unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(kinds[0])
		return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
	case strings.HasSuffix(media, "cbor"):
		var content map[string]any
		if err := cbor.Unmarshal(body, &content); err != nil {
			return err
		}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
	case strings.HasSuffix(media, "yaml"):
		return yaml.Unmarshal(body, into)
	default:
		return json.Unmarshal(body, into)
	}
}
