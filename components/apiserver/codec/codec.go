package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"
)

// Codec reads and writes objects in the formats of the wire. It is immutable and safe for concurrent use.
type Codec struct {
	lenient map[MediaType]runtime.Serializer
	strict  map[MediaType]runtime.Serializer
}

// NewCodec makes a codec for the types of scheme; see NewScheme. Types that the scheme doesn't know (unstructured
// content) can be decoded into a given object.
func NewCodec(scheme *runtime.Scheme) *Codec {
	text := func(yaml, strict bool) runtime.Serializer {
		return kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme, scheme,
			kjson.SerializerOptions{Yaml: yaml, Strict: strict})
	}
	proto := protobuf.NewSerializer(scheme, scheme)
	return &Codec{
		lenient: map[MediaType]runtime.Serializer{JSON: text(false, false), YAML: text(true, false), Protobuf: proto,
			CBOR: cbor.NewSerializer(scheme, scheme)},
		strict: map[MediaType]runtime.Serializer{JSON: text(false, true), YAML: text(true, true), Protobuf: proto,
			CBOR: cbor.NewSerializer(scheme, scheme, cbor.Strict(true))},
	}
}

// Decode reads one object. defaults fills in a kind and apiVersion that data leaves out; it may be nil. If data is of
// into's type, into is filled and returned, else (or if into is nil) a new object of the type that data names; the kind
// returned is what data said, after defaults.
//
// With strict, unknown and duplicate fields give an error for which runtime.IsStrictDecodingError holds; the object is
// then returned too, and whole, so that a caller may treat it as a warning.
func (c *Codec) Decode(data []byte, m MediaType, defaults *schema.GroupVersionKind, into runtime.Object,
	strict bool) (runtime.Object, *schema.GroupVersionKind, error) {
	serializers := c.lenient
	if strict {
		serializers = c.strict
	}
	s, ok := serializers[m]
	if !ok {
		return nil, nil, fmt.Errorf("no decoder for %s", m)
	}
	return s.Decode(data, defaults, into)
}

// Encode writes obj as the given kind, as the body of a response: JSON ends in a newline, protobuf has its envelope.
// obj is not changed.
func (c *Codec) Encode(w io.Writer, obj runtime.Object, kind schema.GroupVersionKind, m MediaType) error {
	body, err := Body(obj, kind, m)
	if err != nil {
		return err
	}
	return WriteObject(w, m, kind, body)
}

// Body encodes obj as the given kind; see the package comment. For YAML it is the body of JSON.
func Body(obj runtime.Object, kind schema.GroupVersionKind, m MediaType) ([]byte, error) {
	switch m {
	case Protobuf:
		return message(obj)
	case CBOR:
		return cborBody(obj, kind)
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buf)
	buf.Reset()
	if err := json.NewEncoder(buf).Encode(WithKind(obj, kind)); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", kind.Kind, err)
	}
	return bytes.Clone(bytes.TrimSuffix(buf.Bytes(), newline)), nil // bodies are kept: without room to grow
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// writeYAML writes a JSON body as YAML.
func writeYAML(w io.Writer, body []byte) error {
	out, err := yaml.JSONToYAML(body)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// WriteObject writes a body as a whole response.
func WriteObject(w io.Writer, m MediaType, kind schema.GroupVersionKind, body []byte) error {
	before, after, ok := Around(m, kind, len(body))
	if !ok {
		return writeYAML(w, body)
	}
	for _, part := range [][]byte{before, body, after} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Around is what stands before and after a body of that size in a whole response, which must not be changed. There is
// no such thing in YAML, for which the body is encoded again.
func Around(m MediaType, kind schema.GroupVersionKind, size int) (before, after []byte, ok bool) {
	switch m {
	case Protobuf:
		room := envelopeRest + len(kind.Group) + len(kind.Version) + len(kind.Kind)
		return appendEnvelopeHead(make([]byte, 0, room), kind, size), envelopeTail, true
	case CBOR:
		return cborTag, nil, true
	case YAML:
		return nil, nil, false
	default:
		return nil, newline, true
	}
}

// WithKind returns obj if it says that it is of the given kind, else a shallow copy that says so.
func WithKind(obj runtime.Object, kind schema.GroupVersionKind) runtime.Object {
	if obj.GetObjectKind().GroupVersionKind() == kind {
		return obj
	}
	obj = ShallowCopy(obj)
	obj.GetObjectKind().SetGroupVersionKind(kind)
	return obj
}

// ShallowCopy copies what holds an object's kind and its metadata's plain values (names, versions, times), and nothing
// below that: in the copy these can be set without the original's noticing.
func ShallowCopy[T runtime.Object](obj T) T {
	if u, ok := any(obj).(runtime.Unstructured); ok {
		return any(shallowUnstructured(u)).(T)
	}
	v := reflect.ValueOf(obj)
	out := reflect.New(v.Type().Elem())
	out.Elem().Set(v.Elem())
	return out.Interface().(T)
}

func shallowUnstructured(u runtime.Unstructured) runtime.Object {
	content := maps.Clone(u.UnstructuredContent())
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	out := u.NewEmptyInstance()
	out.SetUnstructuredContent(content)
	return out
}

var newline = []byte("\n")
