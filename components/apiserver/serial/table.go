package serial

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"strconv"

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
	Cells      []any
	Conditions []metav1.TableRowCondition
	// Object is the JSON body that goes with the row; nil means none (includeObject=None).
	Object []byte
}

// Table is a table to be written. Tables have no protobuf form.
type Table struct {
	Kind    schema.GroupVersionKind // see TableKind
	Meta    metav1.ListMeta
	Columns []metav1.TableColumnDefinition // nil writes null, as in the events of a watch after the first
	Rows    iter.Seq2[Row, error]
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
	head, err := listHead(t.Kind, t.Meta)
	if err != nil {
		return err
	}
	columns, err := json.Marshal(t.Columns)
	if err != nil {
		return err
	}
	out := chunks{w: w}
	out.write(head)
	out.write([]byte(`,"columnDefinitions":`))
	out.write(columns)
	out.write([]byte(`,"rows":[`))
	first := true
	var line []byte
	for row, err := range t.Rows {
		if err != nil {
			return err
		}
		line = line[:0]
		if !first {
			line = append(line, ',')
		}
		first = false
		if line, err = appendCells(append(line, `{"cells":`...), row.Cells); err != nil {
			return err
		}
		if len(row.Conditions) > 0 {
			conditions, err := json.Marshal(row.Conditions)
			if err != nil {
				return err
			}
			line = append(append(line, `,"conditions":`...), conditions...)
		}
		out.write(append(line, `,"object":`...))
		object := row.Object
		if object == nil {
			object = []byte("null")
		}
		out.write(object)
		if err := out.write(closing); err != nil {
			return err
		}
	}
	out.write([]byte("]}"))
	return out.flush()
}

var closing = []byte("}")

func appendCells(dst []byte, cells []any) ([]byte, error) {
	dst = append(dst, '[')
	for i, cell := range cells {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendCell(dst, cell); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
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
		if plain(v) {
			return append(append(append(dst, '"'), v...), '"'), nil
		}
	}
	value, err := json.Marshal(cell)
	return append(dst, value...), err
}

// plain reports whether a string stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}
