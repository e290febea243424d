package handlers

import (
	"bytes"
	"io"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/serial"
)

// rowObject reads what of its object goes with each row of a Table.
func (c *call) rowObject() (metav1.IncludeObjectPolicy, error) {
	o := metav1.TableOptions{IncludeObject: metav1.IncludeObjectPolicy(c.r.URL.Query().Get("includeObject"))}
	if errs := validation.ValidateTableOptions(&o); len(errs) > 0 {
		return "", apierrors.NewBadRequest("Invalid value for includeObject: " + errs.ToAggregate().Error())
	}
	return o.IncludeObject, nil
}

// table answers with a Table. version is its resource version when that isn't the list's.
func (c *call) table(code int, choice negotiate.Choice, l *cache.List, version string) error {
	include, err := c.rowObject()
	if err != nil {
		return err
	}
	t := serial.Table{Kind: serial.TableKind("v1"), Meta: l.Meta(), Columns: c.columns(), Rows: c.rows(l.Entries, include)}
	if version != "" {
		t.Meta.ResourceVersion = version
	}
	write := func(w io.Writer) error { return serial.WriteTable(w, choice.Media, t) }
	if choice.Pretty && choice.Media == serial.JSON {
		write = indented(write)
	}
	return c.send(code, choice.Media, write)
}

func (c *call) rows(entries []*cache.Entry, include metav1.IncludeObjectPolicy) iter.Seq2[serial.Row, error] {
	var f *cache.Format
	switch include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		f = c.format(serial.JSON, cache.Whole)
	default:
		f = c.format(serial.JSON, cache.Metadata)
	}
	now := c.api.config.Clock.Now()
	return func(yield func(serial.Row, error) bool) {
		for _, e := range entries {
			row := serial.Row{Cells: c.cells(e.Object, now)}
			if c.kind.RowConditions != nil {
				row.Conditions = c.kind.RowConditions(e.Object)
			}
			var err error
			if f != nil {
				row.Object, err = e.Encoded(f)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// bookmarkRow carries the metadata of a bookmark, which has no object to show.
func (c *call) bookmarkRow(e *cache.Entry) iter.Seq2[serial.Row, error] {
	return func(yield func(serial.Row, error) bool) {
		body, err := e.Encoded(c.format(serial.JSON, cache.Metadata))
		yield(serial.Row{Cells: []any{}, Object: body}, err)
	}
}

// indented makes JSON that people read, which can't be streamed.
func indented(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		var buf bytes.Buffer
		if err := write(&buf); err != nil {
			return err
		}
		_, err := w.Write(indent(buf.Bytes()))
		return err
	}
}
