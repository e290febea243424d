package faults

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"google.golang.org/protobuf/encoding/protowire"
	"sigs.k8s.io/yaml"
)

var requests = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// nameRoom is how much of a create's body is looked at for the name of the object, in bytes.
const nameRoom = 3 << 20

// keyOf is what a request does; ok is false for one that is for no resource. The body of a create is read for the name
// of its object, and put back.
func keyOf(r *http.Request, user string) (k Key, ok bool) {
	info, err := requests.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		return k, false
	}
	k = Key{User: user, Verb: info.Verb, Resource: info.Resource, Namespace: info.Namespace, Name: info.Name}
	if info.APIGroup != "" {
		k.Resource += "." + info.APIGroup
	}
	if info.Subresource != "" {
		k.Resource += "/" + info.Subresource
	}
	if k.Verb == "create" && k.Name == "" && r.Body != nil {
		body, err := io.ReadAll(io.LimitReader(r.Body, nameRoom))
		r.Body = &rejoined{Reader: io.MultiReader(bytes.NewReader(body), r.Body), Closer: r.Body}
		if err == nil {
			k.Name = nameIn(body, r.Header.Get("Content-Type"))
		}
	}
	return k, true
}

type rejoined struct {
	io.Reader
	io.Closer
}

// named is the part of an object that names it.
type named struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
}

// nameIn is the name of an object in a body, or what its name begins with; "" if it can't be found.
func nameIn(body []byte, contentType string) string {
	media, _, _ := mime.ParseMediaType(contentType)
	var obj named
	switch {
	case strings.HasSuffix(media, "protobuf"):
		return protobufName(body)
	case strings.HasSuffix(media, "cbor"):
		var content map[string]any
		if cbor.Unmarshal(body, &content) != nil {
			return ""
		}
		u := unstructured.Unstructured{Object: content}
		obj.Metadata.Name, obj.Metadata.GenerateName = u.GetName(), u.GetGenerateName()
	default:
		if yaml.Unmarshal(body, &obj) != nil {
			return ""
		}
	}
	if obj.Metadata.Name != "" {
		return obj.Metadata.Name
	}
	return obj.Metadata.GenerateName
}

// protobufName reads a runtime.Unknown: its field 2 is the object, of which field 1 is the ObjectMeta of all kinds,
// whose fields 1 and 2 are name and generateName.
func protobufName(body []byte) string {
	unknown, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		return ""
	}
	meta := field(field(unknown, 2), 1)
	if name := field(meta, 1); len(name) > 0 {
		return string(name)
	}
	return string(field(meta, 2))
}

// field is the first value of a number of type bytes in a message; nil without.
func field(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		if n == number && kind == protowire.BytesType {
			value, size := protowire.ConsumeBytes(message)
			if size < 0 {
				return nil
			}
			return value
		}
		size = protowire.ConsumeFieldValue(n, kind, message)
		if size < 0 {
			return nil
		}
		message = message[size:]
	}
	return nil
}
