package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Storage is how objects of one kind lie in the store: as upstream writes them, in the hub version or the kind's own
// for that, in a protobuf envelope, or as JSON or CBOR if the type has no protobuf form (custom resources). The
// resource version is never part of it.
type Storage struct {
	kind *api.Kind
	hub  schema.GroupVersionKind
	lies schema.GroupVersionKind // what is written
	// toLies makes that of a hub object; nil if it is the hub.
	toLies func(hub api.Object) (api.Object, error)
	media  string
}

// NewStorage makes the storage form of kind. It reads all forms that the kind can have, and writes the media type given
// if that is one of them.
func NewStorage(kind *api.Kind, media string) *Storage {
	s := &Storage{kind: kind, hub: kind.Hub.WithKind(kind.Name), media: media}
	if kind.StoredAsJSON {
		s.media = runtime.ContentTypeJSON
	}
	s.lies = s.hub
	if v := kind.Version(kind.Stored); v != nil {
		s.lies, s.toLies = v.WithKind(kind.Name), v.FromHub
	}
	return s
}

// Encode writes a hub object, which must have no resource version.
func (s *Storage) Encode(obj api.Object) ([]byte, error) {
	if obj.GetResourceVersion() != "" {
		return nil, fmt.Errorf("storing %s %s: the resource version must be empty", s.hub.Kind, obj.GetName())
	}
	value, err := s.encode(obj)
	if err != nil {
		return nil, fmt.Errorf("storing %s %s: %w", s.hub.Kind, obj.GetName(), err)
	}
	return value, nil
}

func (s *Storage) encode(obj api.Object) (_ []byte, err error) {
	if s.toLies != nil {
		if obj, err = s.toLies(obj); err != nil {
			return nil, err
		}
	}
	switch s.media {
	case runtime.ContentTypeCBOR:
		var buf bytes.Buffer
		err := cborEncoder.Encode(WithKind(obj, s.lies), &buf)
		return buf.Bytes(), err
	case runtime.ContentTypeProtobuf:
		value, err := enveloped(obj, s.lies)
		if err == nil {
			return value, nil
		}
		if !IsNotProtobuf(err) {
			return nil, err
		}
	}
	body, err := json.Marshal(WithKind(obj, s.lies))
	if _, custom := obj.(runtime.Unstructured); err == nil && s.media == runtime.ContentTypeYAML && !custom {
		return yaml.JSONToYAML(body)
	}
	return append(body, '\n'), err
}

// Decode reads what Encode, or another API server with another storage version, has written. The object is of the hub
// version (a custom resource of that in which it lies), says so in its type meta, has its defaults, and has no resource
// version.
func (s *Storage) Decode(value []byte) (api.Object, error) {
	obj, version, err := s.read(value)
	if err != nil {
		return nil, err
	}
	if version.Coerce != nil {
		if _, err := version.Coerce(obj, true); err != nil {
			return nil, err
		}
	}
	if version.Check != nil {
		if err := version.Check(obj); err != nil {
			return nil, err
		}
	}
	if version.Default != nil {
		version.Default(obj)
	}
	if s.kind.Custom != nil {
		return obj, nil
	}
	if version.ToHub != nil {
		if obj, err = version.ToHub(obj); err != nil {
			return nil, err
		}
	}
	if s.kind.OnRead != nil {
		s.kind.OnRead(obj)
	}
	obj.GetObjectKind().SetGroupVersionKind(s.hub)
	return obj, nil
}

func (s *Storage) read(value []byte) (api.Object, *api.Version, error) {
	if IsCBOR(value) {
		return s.readCBOR(value)
	}
	if !IsEnvelope(value) {
		if !bytes.HasPrefix(value, []byte("{")) {
			var err error
			if value, err = yaml.YAMLToJSON(value); err != nil {
				return nil, nil, err
			}
		}
		return s.readJSON(value)
	}
	gvk, message, err := OpenEnvelope(value)
	if err != nil {
		return nil, nil, err
	}
	version, err := s.version(gvk)
	if err != nil {
		return nil, nil, err
	}
	obj := version.New()
	m, ok := obj.(interface{ Unmarshal([]byte) error })
	if !ok {
		return nil, nil, notProtobuf{obj}
	}
	return obj, version, m.Unmarshal(message)
}

func (s *Storage) readJSON(value []byte) (api.Object, *api.Version, error) {
	lies, err := jsonserializer.DefaultMetaFactory.Interpret(value) // whose words are upstream's
	if err != nil {
		return nil, nil, err
	}
	if lies.Kind == "" && s.kind.Custom != nil {
		return nil, nil, runtime.NewMissingKindErr(string(value))
	}
	version, err := s.version(*lies)
	if err != nil {
		return nil, nil, err
	}
	obj := version.New()
	return obj, version, json.Unmarshal(value, obj)
}

func (s *Storage) readCBOR(value []byte) (api.Object, *api.Version, error) {
	if s.kind.Custom == nil {
		return nil, nil, errors.New("found CBOR, which only custom resources are stored as")
	}
	obj := &unstructured.Unstructured{}
	if err := direct.Unmarshal(value, &obj.Object); err != nil {
		return nil, nil, err
	}
	version, err := s.version(obj.GroupVersionKind())
	return obj, version, err
}

func (s *Storage) version(gvk schema.GroupVersionKind) (*api.Version, error) {
	if gvk.Kind != s.kind.Name {
		return nil, fmt.Errorf("found a %s instead", gvk)
	}
	v := s.kind.Readable(gvk.GroupVersion())
	switch custom := s.kind.Custom != nil; {
	case v != nil:
	case custom && gvk.Group != s.hub.Group:
		return nil, fmt.Errorf("%s is unstructured and is not suitable for converting to %q", gvk, s.hub.GroupVersion())
	case custom:
		return nil, fmt.Errorf("request to convert CR from an invalid group/version: %s", gvk.GroupVersion())
	default:
		return nil, fmt.Errorf("version %s is not known: it must be read by a server that serves it",
			gvk.GroupVersion())
	}
	return v, nil
}
