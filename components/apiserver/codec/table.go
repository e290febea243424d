package codec

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TableKind is the kind of a table in the given version of meta.k8s.io ("v1").
func TableKind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: metav1.GroupName, Version: version, Kind: "Table"}
}

// Row is one line of a table.
type Row struct {
	Cells TableRow
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
	// Now is when the table is read; ages depend on it.
	Now time.Time
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
	return writeYAML(w, buf.Bytes())
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
	rows := rowWriter{now: t.Now}
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
		rows.text = rows.append(rows.text[:0], row)
		if err := out.write(rows.text); err != nil {
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
