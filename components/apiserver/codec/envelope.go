package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// magic starts every protobuf object on the wire and in storage
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding).
var magic = []byte("k8s\x00")

// envelopeRoom is what an envelope adds at most to a body of a kind with ordinary names.
const envelopeRoom = 192

// envelopeRest is what the head of an envelope has at most beside the names in it.
const envelopeRest = 24

// AppendEnvelope appends the envelope of a protobuf object: the magic number and a runtime.Unknown that names the kind
// and holds the message.
func AppendEnvelope(dst []byte, kind schema.GroupVersionKind, message []byte) []byte {
	dst = appendEnvelopeHead(dst, kind, len(message))
	dst = append(dst, message...)
	return append(dst, envelopeTail...)
}

// envelopeTail is an empty contentEncoding and an empty contentType.
var envelopeTail = []byte{3<<3 | 2, 0, 4<<3 | 2, 0}

// appendEnvelopeHead appends all of an envelope that comes before a message of the given size.
func appendEnvelopeHead(dst []byte, kind schema.GroupVersionKind, size int) []byte {
	apiVersion := kind.GroupVersion().String()
	meta := protowire.SizeTag(1) + protowire.SizeBytes(len(apiVersion)) + protowire.SizeTag(2) +
		protowire.SizeBytes(len(kind.Kind))
	dst = append(dst, magic...)
	dst = append(dst, 1<<3|2)
	dst = binary.AppendUvarint(dst, uint64(meta))
	dst = append(dst, 1<<3|2)
	dst = protowire.AppendString(dst, apiVersion)
	dst = append(dst, 2<<3|2)
	dst = protowire.AppendString(dst, kind.Kind)
	dst = append(dst, 2<<3|2)
	return binary.AppendUvarint(dst, uint64(size))
}

// OpenEnvelope takes an envelope apart. The message shares data's memory.
func OpenEnvelope(data []byte) (kind schema.GroupVersionKind, message []byte, err error) {
	if !IsEnvelope(data) {
		return kind, nil, errors.New("not a protobuf object: it doesn't begin with k8s\\0")
	}
	rest := data[len(magic):]
	for len(rest) > 0 {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return kind, nil, fmt.Errorf("protobuf envelope: %w", protowire.ParseError(n))
		}
		rest = rest[n:]
		if typ != protowire.BytesType {
			return kind, nil, fmt.Errorf("protobuf envelope: field %d has wire type %d", num, typ)
		}
		value, n := protowire.ConsumeBytes(rest)
		if n < 0 {
			return kind, nil, fmt.Errorf("protobuf envelope: %w", protowire.ParseError(n))
		}
		rest = rest[n:]
		switch num {
		case 1:
			var t runtime.TypeMeta
			if err := t.Unmarshal(value); err != nil {
				return kind, nil, fmt.Errorf("protobuf envelope: %w", err)
			}
			kind = schema.FromAPIVersionAndKind(t.APIVersion, t.Kind)
		case 2:
			message = value
		case 3:
			if len(value) > 0 {
				return kind, nil, fmt.Errorf("protobuf envelope: content encoding %q is not supported", value)
			}
		}
	}
	return kind, message, nil
}

// IsEnvelope reports whether data begins as a protobuf object does.
func IsEnvelope(data []byte) bool { return bytes.HasPrefix(data, magic) }

// message marshals obj without an envelope.
func message(obj runtime.Object) ([]byte, error) {
	return marshaled(obj, func(size int) (buffer []byte, before int) { return make([]byte, size), 0 })
}

// enveloped marshals obj in an envelope that says it is of the given kind.
func enveloped(obj runtime.Object, kind schema.GroupVersionKind) ([]byte, error) {
	out, err := marshaled(obj, func(size int) (buffer []byte, before int) {
		head := appendEnvelopeHead(make([]byte, 0, size+envelopeRoom), kind, size)
		return slices.Grow(head, size)[:len(head)+size], len(head)
	})
	if err != nil {
		return nil, err
	}
	return append(out, envelopeTail...), nil
}

// marshaled writes obj into a buffer for a message of its size, behind so many bytes that are in it.
func marshaled(obj runtime.Object, buffer func(size int) ([]byte, int)) ([]byte, error) {
	m, ok := obj.(runtime.ProtobufReverseMarshaller)
	if !ok {
		return nil, notProtobuf{obj}
	}
	sized, ok := obj.(interface{ Size() int })
	if !ok {
		return nil, notProtobuf{obj}
	}
	size := sized.Size()
	out, before := buffer(size)
	n, err := m.MarshalToSizedBuffer(out[before:])
	if err == nil && n != size {
		err = fmt.Errorf("%T: %d bytes where %d were announced", obj, n, size)
	}
	return out, err
}

// notProtobuf tells that an object has no protobuf form; IsNotProtobuf finds it.
type notProtobuf struct{ obj runtime.Object }

func (e notProtobuf) Error() string {
	return fmt.Sprintf("object %T has no protobuf form: ask for application/json", e.obj)
}

// IsNotProtobuf reports whether err says that an object can't be written as protobuf (the answer is then 406).
func IsNotProtobuf(err error) bool {
	var e notProtobuf
	return errors.As(err, &e)
}
