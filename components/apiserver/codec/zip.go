package codec

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"google.golang.org/protobuf/encoding/protowire"
)

// Compressing costs more than all the rest of a large list. So items can be compressed beforehand, in runs, and a
// response be put together from them: deflate lets pieces that end on a whole byte and look back at nothing before them
// follow one another in a single gzip member. A list of 10,000 pods that is asked for again takes a quarter of the time
// of compressing it whole: without runs the bench of the API server has its gzip lists take four to five times as long.

// Segment is a compressed piece of a response. It is immutable.
type Segment struct {
	deflated []byte
	crc      uint32
	size     int64 // uncompressed
}

// Len is how much memory the segment takes, in bytes.
func (s *Segment) Len() int { return len(s.deflated) }

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

func deflate(text []byte) Segment {
	out := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(out)
	out.Reset()
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(out)
	_, _ = w.Write(text) // into memory
	_ = w.Flush()
	return Segment{deflated: bytes.Clone(out.Bytes()), crc: crc32.ChecksumIEEE(text), size: int64(len(text))}
}

// ItemSegment compresses a run of the items of a list, given as bodies; of the list, only Item and KeepKinds matter.
func ItemSegment(m MediaType, l List, bodies [][]byte) Segment {
	buf := texts.Get().(*[]byte)
	defer texts.Put(buf)
	text := (*buf)[:0]
	prefix := kindPrefix(l.Item)
	for i, body := range bodies {
		if m == Protobuf {
			text = protowire.AppendBytes(append(text, 2<<3|2), body)
			continue
		}
		if i > 0 {
			text = append(text, ',')
		}
		if rest, ok := bytes.CutPrefix(body, prefix); ok && !l.KeepKinds {
			text = append(text, '{')
			body = rest
		}
		text = append(text, body...)
	}
	*buf = text
	return deflate(text)
}

// texts are what runs are put together in before they are compressed.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// RowSegment compresses a run of the rows of a table, as they are at a time. It tells until when they are the same;
// zero is for ever.
func RowSegment(rows iter.Seq2[Row, error], now time.Time) (s Segment, until time.Time, err error) {
	buf := texts.Get().(*[]byte)
	l := rowWriter{now: now, text: (*buf)[:0]}
	defer func() {
		*buf = l.text
		texts.Put(buf)
	}()
	for row, err := range rows {
		if err != nil {
			return s, until, err
		}
		if len(l.text) > 0 {
			l.text = append(l.text, ',')
		}
		l.text = l.append(l.text, row)
	}
	return deflate(l.text), l.until, nil
}

// WriteZippedTable writes a table whose rows are the given segments, as WriteTable would in JSON, compressed with gzip.
// t.Rows is not used.
func WriteZippedTable(w io.Writer, t Table, runs []*Segment) error {
	head, err := t.head()
	if err != nil {
		return err
	}
	z := zipper{out: chunks{w: w}}
	z.out.write(gzipHead)
	z.stored(append(head, '['))
	z.runs(runs)
	z.stored(append(bytes.Clone(tableEnd), '\n'))
	return z.close()
}

// WriteZippedList writes a list whose items are the given segments, as WriteList would, compressed with gzip. m is JSON
// or Protobuf; l.Items is not used.
func WriteZippedList(w io.Writer, m MediaType, l List, runs []*Segment) error {
	z := zipper{out: chunks{w: w}}
	z.out.write(gzipHead)
	if m == Protobuf {
		head, err := protobufHead(l, runs)
		if err != nil {
			return err
		}
		z.stored(head)
		for _, run := range runs {
			z.append(run)
		}
		z.stored(envelopeTail)
		return z.close()
	}
	head, tail, err := l.frame()
	if err != nil {
		return err
	}
	z.stored(append(head, bracket...))
	z.runs(runs)
	z.stored(append([]byte("]"), tail...))
	return z.close()
}

func protobufHead(l List, runs []*Segment) ([]byte, error) {
	meta, err := l.Meta.Marshal()
	if err != nil {
		return nil, err
	}
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(meta))
	for _, run := range runs {
		size += int(run.size)
	}
	return listMessageHead(l.Kind, meta, size), nil
}

// listMessageHead is the envelope of a list message of the given size, up to and with its metadata.
func listMessageHead(kind schema.GroupVersionKind, meta []byte, size int) []byte {
	head := appendEnvelopeHead(make([]byte, 0, envelopeRoom+len(meta)), kind, size)
	return protowire.AppendBytes(append(head, 1<<3|2), meta)
}

// gzipHead says: deflate, no name, no time, unknown system.
var gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}

// zipper puts a gzip member together.
type zipper struct {
	out  chunks
	crc  uint32
	size int64
}

// runs adds segments of JSON, with commas between them.
func (z *zipper) runs(runs []*Segment) {
	for i, run := range runs {
		if i > 0 {
			z.stored(comma)
		}
		z.append(run)
	}
}

func (z *zipper) append(s *Segment) {
	z.crc = combineCRC(z.crc, s.crc, s.size)
	z.size += s.size
	z.out.write(s.deflated)
}

// stored adds text uncompressed, in blocks of at most 64 KiB.
func (z *zipper) stored(text []byte) {
	z.crc = crc32.Update(z.crc, crc32.IEEETable, text)
	z.size += int64(len(text))
	for len(text) > 0 {
		n := min(len(text), math.MaxUint16)
		head := []byte{0}
		head = binary.LittleEndian.AppendUint16(head, uint16(n))
		head = binary.LittleEndian.AppendUint16(head, ^uint16(n))
		z.out.write(head)
		z.out.write(text[:n])
		text = text[n:]
	}
}

// close ends the stream with an empty last block and the trailer.
func (z *zipper) close() error {
	end := []byte{3, 0}
	end = binary.LittleEndian.AppendUint32(end, z.crc)
	end = binary.LittleEndian.AppendUint32(end, uint32(z.size))
	z.out.write(end)
	return z.out.flush()
}
