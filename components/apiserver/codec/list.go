package codec

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// List is a list to be written.
type List struct {
	Kind schema.GroupVersionKind // of the list: "PodList"
	Item schema.GroupVersionKind // of its items; their kind is left out in JSON, as in every typed list; see KeepKinds
	Meta metav1.ListMeta
	// Items are the bodies of the items. It ends after an error.
	Items iter.Seq2[[]byte, error]
	// KeepKinds leaves kind and apiVersion in the items (custom resources).
	KeepKinds bool
	// Free is a list of no Go type (custom resources): its keys are sorted, and it tells of the continue token also
	// where there is none.
	Free bool
	// NullIfEmpty writes null instead of no items.
	NullIfEmpty bool
}

// WriteList writes a list piece by piece. An error after the first byte leaves a broken document behind: the connection
// must then be cut.
func WriteList(w io.Writer, m MediaType, l List) error {
	switch m {
	case Protobuf:
		return writeListProtobuf(w, l)
	case CBOR:
		return writeListCBOR(w, l)
	case YAML:
		var buf bytes.Buffer
		if err := writeListJSON(&buf, l); err != nil {
			return err
		}
		return writeYAML(w, buf.Bytes())
	default:
		return writeListJSON(w, l)
	}
}

func writeListJSON(w io.Writer, l List) error {
	head, tail, err := l.frame()
	if err != nil {
		return err
	}
	out := chunks{w: w}
	out.write(head)
	prefix := kindPrefix(l.Item)
	first := true
	for body, err := range l.Items {
		if err != nil {
			return err
		}
		out.write(separator(first))
		first = false
		if rest, ok := bytes.CutPrefix(body, prefix); ok && !l.KeepKinds {
			out.write(brace)
			body = rest
		}
		if err := out.write(body); err != nil {
			return err
		}
	}
	switch {
	case first && l.NullIfEmpty:
		out.write([]byte("null"))
	case first:
		out.write([]byte("[]"))
	default:
		out.write([]byte("]"))
	}
	out.write(tail)
	return out.flush()
}

// separator stands before an item.
func separator(first bool) []byte {
	if first {
		return bracket
	}
	return comma
}

// listHead is a JSON list up to and with its metadata, without the closing brace.
func listHead(kind schema.GroupVersionKind, meta any) ([]byte, error) {
	m, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	head := append([]byte(nil), kindPrefix(kind)...)
	head = append(head, `"metadata":`...)
	return append(head, m...), nil
}

// frame is what stands in JSON before the items of a list and after them.
func (l List) frame() (head, tail []byte, err error) {
	if !l.Free {
		head, err = listHead(l.Kind, l.meta())
		return append(head, `,"items":`...), []byte("}\n"), err
	}
	meta, err := json.Marshal(l.meta())
	head = []byte(`{"apiVersion":"` + l.Kind.GroupVersion().String() + `","items":`)
	tail = append([]byte(`,"kind":"`+l.Kind.Kind+`","metadata":`), meta...)
	return head, append(tail, "}\n"...), err
}

// shownMeta is the metadata of a list that tells of its continue token in any case.
type shownMeta struct {
	Continue           string `json:"continue"`
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
	ResourceVersion    string `json:"resourceVersion,omitempty"`
}

// meta is what l tells of itself.
func (l List) meta() any {
	if !l.Free {
		return l.Meta
	}
	return shownMeta{l.Meta.Continue, l.Meta.RemainingItemCount, l.Meta.ResourceVersion}
}

// kindPrefix is how the JSON of an object of that kind begins.
func kindPrefix(kind schema.GroupVersionKind) []byte {
	return []byte(`{"kind":"` + kind.Kind + `","apiVersion":"` + kind.GroupVersion().String() + `",`)
}

var (
	comma   = []byte(",")
	brace   = []byte("{")
	bracket = []byte("[")
)

// writeListProtobuf writes field 1 (ListMeta) and field 2 (items) of a list message, in an envelope whose length must
// be known first: so all bodies are gathered, though not copied.
func writeListProtobuf(w io.Writer, l List) error {
	meta, err := l.Meta.Marshal()
	if err != nil {
		return err
	}
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(meta))
	var bodies [][]byte
	for body, err := range l.Items {
		if err != nil {
			return err
		}
		bodies = append(bodies, body)
		size += protowire.SizeTag(2) + protowire.SizeBytes(len(body))
	}
	out := chunks{w: w}
	out.write(listMessageHead(l.Kind, meta, size))
	var tag []byte
	for _, body := range bodies {
		tag = protowire.AppendVarint(append(tag[:0], 2<<3|2), uint64(len(body)))
		out.write(tag)
		if err := out.write(body); err != nil {
			return err
		}
	}
	out.write(envelopeTail)
	return out.flush()
}

// chunks gathers small writes; after an error it does nothing more.
type chunks struct {
	w   io.Writer
	buf []byte
	err error
}

// chunkSize is about what one TLS record or one gzip step takes well.
const chunkSize = 32 << 10

func (c *chunks) write(p []byte) error {
	if c.err != nil {
		return c.err
	}
	if c.buf == nil {
		c.buf = make([]byte, 0, chunkSize)
	}
	if len(c.buf)+len(p) > cap(c.buf) {
		if c.flush() != nil {
			return c.err
		}
		if len(p) > cap(c.buf) {
			_, c.err = c.w.Write(p)
			return c.err
		}
	}
	c.buf = append(c.buf, p...)
	return nil
}

func (c *chunks) flush() error {
	if c.err == nil && len(c.buf) > 0 {
		_, c.err = c.w.Write(c.buf)
		c.buf = c.buf[:0]
	}
	return c.err
}
