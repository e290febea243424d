package codec

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FrameLength is the size of what goes before each protobuf event of a stream, in bytes: the size of the event.
const FrameLength = 4

// AppendWatchEvent appends one event of a watch, framed as its format wants it: a line of JSON, or a length of four
// bytes and a WatchEvent message; CBOR needs no frame. eventType is that of the API ("ADDED"); body is that of an
// object of the given kind, or of a Status for "ERROR". YAML has no stream and is written as JSON.
func AppendWatchEvent(dst []byte, m MediaType, eventType string, kind schema.GroupVersionKind, body []byte) []byte {
	if m == CBOR {
		return appendCBOREvent(dst, eventType, body)
	}
	if m != Protobuf {
		dst = append(dst, `{"type":"`...)
		dst = append(dst, eventType...)
		dst = append(dst, `","object":`...)
		dst = append(dst, body...)
		return append(dst, "}\n"...)
	}
	start := len(dst)
	dst = append(dst, make([]byte, FrameLength)...)
	dst = append(dst, 1<<3|2)
	dst = protowire.AppendString(dst, eventType)
	head := appendEnvelopeHead(make([]byte, 0, envelopeRoom), kind, len(body))
	object := len(head) + len(body) + len(envelopeTail)
	dst = append(dst, 2<<3|2)
	dst = protowire.AppendVarint(dst, uint64(protowire.SizeTag(1)+protowire.SizeBytes(object)))
	dst = append(dst, 1<<3|2)
	dst = protowire.AppendVarint(dst, uint64(object))
	dst = append(dst, head...)
	dst = append(dst, body...)
	dst = append(dst, envelopeTail...)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-FrameLength))
	return dst
}
