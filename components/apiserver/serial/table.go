package serial

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// TableKind is the kind of a table in the given version of meta.k8s.io ("v1").
func TableKind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: metav1.GroupName, Version: version, Kind: "Table"}
}

// Row is one line of a table.
type Row struct {
	Cells      []any // may be Aging
	Conditions []metav1.TableRowCondition
	// Object is the JSON body that goes with the row; nil means none (includeObject=None).
	Object []byte
}

// Table is a table to be written. Tables have no protobuf form, and none in CBOR.
type Table struct {
	Kind    schema.GroupVersionKind // see TableKind
	Meta    metav1.ListMeta
	Columns []metav1.TableColumnDefinition // nil writes null, as in the events of a watch after the first
	Rows    iter.Seq2[Row, error]
	// NullIfEmpty writes null instead of no rows.
	NullIfEmpty bool
	// Now is when the table is read; cells may depend on it.
	Now time.Time
}

// Aging is a cell whose text depends on when it is read. It tells until when the text is the same.
type Aging interface {
	At(now time.Time) (text string, until time.Time)
}

// WriteTable writes a table piece by piece; for errors see WriteList.
func WriteTable(w io.Writer, m MediaType, t Table) error {
	if m == JSON {
		if err := writeTableJSON(w, t); err != nil {
			return err
		}
		_, err := w.Write(newline)
		return err
	}
	var buf bytes.Buffer
	if err := writeTableJSON(&buf, t); err != nil {
		return err
	}
	out, err := yaml.JSONToYAML(buf.Bytes())
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// TableBody returns a table as a JSON body, for the events of a watch.
func TableBody(t Table) ([]byte, error) {
	var buf bytes.Buffer
	err := writeTableJSON(&buf, t)
	return buf.Bytes(), err
}

func writeTableJSON(w io.Writer, t Table) error {
	head, err := t.head()
	if err != nil {
		return err
	}
	out := chunks{w: w}
	lines := lines{now: t.Now}
	first := true
	for row, err := range t.Rows {
		if err != nil {
			return err
		}
		if first {
			out.write(append(head, '['))
		} else {
			out.write(comma)
		}
		first = false
		text, err := lines.append(lines.text[:0], row)
		if err != nil {
			return err
		}
		lines.text = text
		if err := out.write(text); err != nil {
			return err
		}
	}
	switch {
	case first && t.NullIfEmpty:
		out.write(append(head, "null}"...))
	case first:
		out.write(append(head, "[]}"...))
	default:
		out.write(tableEnd)
	}
	return out.flush()
}

// head is a table up to its rows.
func (t Table) head() ([]byte, error) {
	head, err := listHead(t.Kind, t.Meta)
	if err != nil {
		return nil, err
	}
	columns, err := json.Marshal(t.Columns)
	if err != nil {
		return nil, err
	}
	head = append(append(head, `,"columnDefinitions":`...), columns...)
	return append(head, `,"rows":`...), nil
}

var tableEnd = []byte("]}")

// lines writes rows as they are at a time.
type lines struct {
	now   time.Time
	until time.Time // when the text of a cell that was written becomes another; zero for never
	text  []byte
}

func (l *lines) append(dst []byte, row Row) (_ []byte, err error) {
	dst = append(dst, `{"cells":[`...)
	for i, cell := range row.Cells {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = l.appendCell(dst, cell); err != nil {
			return dst, err
		}
	}
	dst = append(dst, ']')
	if len(row.Conditions) > 0 {
		conditions, err := json.Marshal(row.Conditions)
		if err != nil {
			return dst, err
		}
		dst = append(append(dst, `,"conditions":`...), conditions...)
	}
	dst = append(dst, `,"object":`...)
	if row.Object == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, row.Object...)
	}
	return append(dst, '}'), nil
}

func (l *lines) appendCell(dst []byte, cell any) ([]byte, error) {
	aging, ok := cell.(Aging)
	if !ok {
		return appendCell(dst, cell)
	}
	text, until := aging.At(l.now)
	if l.until.IsZero() || until.Before(l.until) {
		l.until = until
	}
	return appendCell(dst, text)
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
	case string:
		if out, ok := appendPlain(dst, v); ok {
			return out, nil
		}
	}
	value, err := json.Marshal(cell)
	return append(dst, value...), err
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
