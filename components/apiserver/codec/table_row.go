package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// TableRow is a row of a table up to its object, at whatever time it will be read: cells that tell how long ago
// something was (show.Ago) have marks in it.
type TableRow []byte

// A mark stands for an age: what no JSON has in it, and since when, in seconds and nanoseconds.
const (
	mark     = 0
	markSize = 1 + 8 + 4
)

// NewTableRow makes the TableRow of cells and conditions.
func NewTableRow(cells []any, conditions []metav1.TableRowCondition) (TableRow, error) {
	line := append(make([]byte, 0, 160), `{"cells":[`...)
	var err error
	for i, cell := range cells {
		if i > 0 {
			line = append(line, ',')
		}
		if line, err = appendCell(line, cell); err != nil {
			return nil, err
		}
	}
	line = append(line, ']')
	if len(conditions) > 0 {
		text, err := json.Marshal(conditions)
		if err != nil {
			return nil, err
		}
		line = append(append(line, `,"conditions":`...), text...)
	}
	return bytes.Clone(append(line, `,"object":`...)), nil
}

// rowWriter writes rows as they are at a time.
type rowWriter struct {
	now   time.Time
	until time.Time // when the text of a cell that was written becomes another; zero for never
	text  []byte

	last age // many objects are made in one second
}

// age is what is said of a time, in JSON without its quotes.
type age struct {
	since time.Time
	text  []byte
}

func (l *rowWriter) append(dst []byte, row Row) []byte {
	dst = l.appendCells(dst, row.Cells)
	if row.Object == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, row.Object...)
	}
	return append(dst, '}')
}

func (l *rowWriter) appendCells(dst []byte, cells TableRow) []byte {
	for {
		i := bytes.IndexByte(cells, mark)
		if i < 0 {
			return append(dst, cells...)
		}
		dst = append(dst, cells[:i]...)
		since := time.Unix(int64(binary.LittleEndian.Uint64(cells[i+1:])), int64(binary.LittleEndian.Uint32(cells[i+9:])))
		dst = append(dst, l.age(since)...)
		cells = cells[i+markSize:]
	}
}

func (l *rowWriter) age(since time.Time) []byte {
	if l.last.text == nil || !l.last.since.Equal(since) {
		text, until := show.Ago{Since: since}.At(l.now)
		if l.until.IsZero() || until.Before(l.until) {
			l.until = until
		}
		quoted, _ := appendPlain(l.last.text[:0], text) // of digits, letters and brackets
		l.last = age{since, quoted}
	}
	return l.last.text[1 : len(l.last.text)-1]
}

// appendCell writes the usual cells without reflection.
func appendCell(dst []byte, cell any) ([]byte, error) {
	switch v := cell.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int32:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case show.Ago:
		return appendAgo(dst, v)
	case string:
		if out, ok := appendPlain(dst, v); ok {
			return out, nil
		}
	}
	value, err := json.Marshal(cell)
	return append(dst, value...), err
}

func appendAgo(dst []byte, a show.Ago) ([]byte, error) {
	dst, err := appendCell(dst, a.Before)
	if err != nil {
		return dst, err
	}
	dst = append(dst[:len(dst)-1], mark) // in the place of a quote
	dst = binary.LittleEndian.AppendUint64(dst, uint64(a.Since.Unix()))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(a.Since.Nanosecond()))
	after, err := appendCell(nil, a.After)
	if err != nil {
		return dst, err
	}
	return append(dst, after[1:]...), nil
}

// appendPlain writes a string as json.Marshal does, if it is made of plain letters and signs.
func appendPlain(dst []byte, s string) ([]byte, bool) {
	out := append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '<':
			out = append(out, `\u003c`...)
		case '>':
			out = append(out, `\u003e`...)
		case '&':
			out = append(out, `\u0026`...)
		case '"', '\\':
			return dst, false
		default:
			if c < ' ' || c >= 0x7f {
				return dst, false
			}
			out = append(out, c)
		}
	}
	return append(out, '"'), true
}
