// Package codec turns objects into bytes and back: the formats of the API's wire (JSON, YAML, protobuf), the form in
// which objects lie in storage, and lists, tables and watch events put together from objects that are bytes already.
//
// Bodies. Whatever is kept encoded is kept as a body: for JSON the whole object with kind and apiVersion and no
// newline; for CBOR the same, with these two in front, and no tag; for protobuf the bare message, without the envelope
// that names its kind. The Write functions add what is missing.
package codec

import "fmt"

// MediaType is a format of the wire.
type MediaType int

// The formats, by their content types.
const (
	JSON     MediaType = iota // application/json
	YAML                      // application/yaml
	Protobuf                  // application/vnd.kubernetes.protobuf
	CBOR                      // application/cbor
)

// String returns the content type.
func (m MediaType) String() string {
	switch m {
	case JSON:
		return "application/json"
	case YAML:
		return "application/yaml"
	case Protobuf:
		return "application/vnd.kubernetes.protobuf"
	case CBOR:
		return "application/cbor"
	}
	return fmt.Sprintf("MediaType(%d)", int(m))
}

// ParseMediaType finds the format of a content type without parameters; ok is false when it is none of ours.
func ParseMediaType(contentType string) (m MediaType, ok bool) {
	for _, m := range []MediaType{JSON, YAML, Protobuf, CBOR} {
		if contentType == m.String() {
			return m, true
		}
	}
	return 0, false
}

// StreamType returns the content type of a watch in this format.
func (m MediaType) StreamType() string {
	switch m {
	case JSON:
		return m.String()
	case CBOR:
		return "application/cbor-seq"
	}
	return m.String() + ";stream=watch"
}
