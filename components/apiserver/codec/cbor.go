package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// cborTag starts every CBOR object on the wire and in storage: "self-described CBOR" (RFC 8949, 3.4.6).
var cborTag = []byte{0xd9, 0xd9, 0xf7}

// IsCBOR reports whether data begins as a CBOR object does.
func IsCBOR(data []byte) bool { return bytes.HasPrefix(data, cborTag) }

// The first bytes of items, by the length that goes with them (RFC 8949, 3.1).
const (
	cborBytes = 2 << 5
	cborArray = 4 << 5
	cborMap   = 5 << 5
	cborNull  = 0xf6
)

// appendCBORHead appends how an item of that type and length begins.
func appendCBORHead(dst []byte, major byte, length int) []byte {
	switch {
	case length < 24:
		return append(dst, major|byte(length))
	case length < 1<<8:
		return append(dst, major|24, byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(length))
	default:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(length))
	}
}

// cutCBORMap takes the head of a map away, and tells how many entries it has.
func cutCBORMap(item []byte) (entries int, rest []byte, ok bool) {
	if len(item) == 0 || item[0]&(7<<5) != cborMap {
		return 0, nil, false
	}
	switch n := int(item[0] & 31); {
	case n < 24:
		return n, item[1:], true
	case n == 24 && len(item) > 1:
		return int(item[1]), item[2:], true
	case n == 25 && len(item) > 2:
		return int(binary.BigEndian.Uint16(item[1:])), item[3:], true
	case n == 26 && len(item) > 4:
		return int(binary.BigEndian.Uint32(item[1:])), item[5:], true
	}
	return 0, nil, false
}

// appendCBORText appends a string as the API's CBOR has it: as bytes.
func appendCBORText(dst []byte, text string) []byte {
	return append(appendCBORHead(dst, cborBytes, len(text)), text...)
}

// cborKind is how the entries of an object of that kind begin, and how many that are: what has no version doesn't tell
// one.
func cborKind(kind schema.GroupVersionKind) (prefix []byte, entries int) {
	out := appendCBORText(appendCBORText(nil, "kind"), kind.Kind)
	version := kind.GroupVersion().String()
	if version == "" {
		return out, 1
	}
	return appendCBORText(appendCBORText(out, "apiVersion"), version), 2
}

// cborEncoder only writes, for which it needs no types.
var cborEncoder = cbor.NewSerializer(nil, nil)

// cborBody encodes obj with its kind and version in front.
func cborBody(obj runtime.Object, kind schema.GroupVersionKind) ([]byte, error) {
	var buf bytes.Buffer
	if err := cborEncoder.EncodeNondeterministic(withoutKind(obj), &buf); err != nil {
		return nil, err
	}
	entries, rest, ok := cutCBORMap(bytes.TrimPrefix(buf.Bytes(), cborTag))
	if !ok {
		return nil, fmt.Errorf("encoding %s: it is no map in CBOR", kind.Kind)
	}
	prefix, more := cborKind(kind)
	out := appendCBORHead(make([]byte, 0, 5+len(prefix)+len(rest)), cborMap, entries+more)
	return append(append(out, prefix...), rest...), nil
}

// withoutKind returns a shallow copy of obj that doesn't say what it is.
func withoutKind(obj runtime.Object) runtime.Object {
	obj = ShallowCopy(obj)
	if u, ok := obj.(runtime.Unstructured); ok {
		content := u.UnstructuredContent()
		delete(content, "kind")
		delete(content, "apiVersion")
		return obj
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return obj
}

// bareCBOR takes kind and version away from a body: the entries given, of which prefix consists.
func bareCBOR(body, prefix []byte, fewer int) []byte {
	entries, rest, ok := cutCBORMap(body)
	if !ok {
		return body
	}
	if rest, ok = bytes.CutPrefix(rest, prefix); !ok {
		return body
	}
	return append(appendCBORHead(make([]byte, 0, 5+len(rest)), cborMap, entries-fewer), rest...)
}

// writeListCBOR writes a list whose items must be counted first: so all bodies are gathered, though not copied.
func writeListCBOR(w io.Writer, l List) error {
	var bodies [][]byte
	for body, err := range l.Items {
		if err != nil {
			return err
		}
		bodies = append(bodies, body)
	}
	meta, err := direct.Marshal(l.meta())
	if err != nil {
		return err
	}
	prefix, entries := cborKind(l.Kind)
	head := append(appendCBORHead(cborTag[:len(cborTag):len(cborTag)], cborMap, entries+2), prefix...)
	head = append(appendCBORText(head, "metadata"), meta...)
	out := chunks{w: w}
	head = appendCBORText(head, "items")
	if len(bodies) == 0 && l.NullIfEmpty {
		out.write(append(head, cborNull))
		return out.flush()
	}
	out.write(appendCBORHead(head, cborArray, len(bodies)))
	prefix, entries = cborKind(l.Item)
	for _, body := range bodies {
		if !l.KeepKinds {
			body = bareCBOR(body, prefix, entries)
		}
		if err := out.write(body); err != nil {
			return err
		}
	}
	return out.flush()
}

// appendCBOREvent appends an event of a watch: an item of a sequence (RFC 8742), which needs no frame.
func appendCBOREvent(dst []byte, eventType string, body []byte) []byte {
	dst = appendCBORHead(append(dst, cborTag...), cborMap, 2)
	dst = appendCBORText(appendCBORText(dst, "type"), eventType)
	dst = append(appendCBORText(dst, "object"), cborTag...)
	return append(dst, body...)
}
