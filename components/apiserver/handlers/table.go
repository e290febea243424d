package handlers

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1beta1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/latency"
	"quintet.dev/quintet/components/apiserver/serial"
)

// rowObject reads what of its object goes with each row of a Table.
func (c *call) rowObject() (metav1.IncludeObjectPolicy, error) {
	if c.r.URL.RawQuery == "" {
		return "", nil
	}
	o := metav1.TableOptions{IncludeObject: metav1.IncludeObjectPolicy(c.r.URL.Query().Get("includeObject"))}
	switch errs := validation.ValidateTableOptions(&o); len(errs) {
	case 0:
		return o.IncludeObject, nil
	case 1:
		return "", apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs[0].Error())
	default:
		return "", apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs))
	}
}

// table answers with a Table. version is its resource version when that isn't the list's.
func (c *call) table(code int, l *cache.List, version string) error {
	include, err := c.rowObject()
	if err != nil {
		return err
	}
	entries := l.Entries
	if order := c.kind.RowOrder; order != nil {
		entries = slices.SortedStableFunc(slices.Values(entries), func(a, b *cache.Entry) int { return order(a.Object, b.Object) })
	}
	rows := c.rows(include)
	t := serial.Table{
		Kind: serial.TableKind(c.choice.Version), Meta: l.Meta(), Columns: c.columns(), Rows: rows.Make(entries), NullIfEmpty: c.kind.PlainRows, Now: c.api.config.Clock.Now(),
	}
	if version != "" {
		t.Meta.ResourceVersion = version
	}
	c.formed()
	c.auditTable(l, t, rows)
	if c.choice.Media == serial.JSON && !c.choice.Pretty && c.zips() && l.CanZip() && c.kind.Custom == nil { // whose rows are made with ages
		return c.serialized(func() error {
			return c.sendZipped(func(w io.Writer) error { return l.WriteZippedTable(w, entries, rows, t) })
		})
	}
	return c.sendTable(code, t)
}

func (c *call) sendTable(code int, t serial.Table) error {
	write := func(w io.Writer) error { return serial.WriteTable(w, c.choice.Media, t) }
	if c.choice.Pretty && c.choice.Media == serial.JSON {
		write = indented(write)
	}
	return c.serialized(func() error { return c.send(code, write) })
}

// plainTable answers with the Table of one object that is in no cache.
func (c *call) plainTable(code int, obj runtime.Object) error {
	include, err := c.rowObject()
	if err != nil {
		return err
	}
	accessor := obj.(metav1.Object)
	var cells []any
	t := serial.Table{
		Kind: serial.TableKind(c.choice.Version), Columns: c.columns(),
		Meta: metav1.ListMeta{ResourceVersion: accessor.GetResourceVersion()}, Now: c.api.config.Clock.Now(),
	}
	if scale, ok := obj.(*autoscalingv1.Scale); ok && c.isScale() {
		t.Columns, cells = scaleColumns(), scaleRow(scale)
		if c.kind.Custom != nil {
			t.Columns, cells = customScaleColumns(), customScaleRow(scale)
		}
	} else {
		cells = c.cells(obj.(kinds.Object))
	}
	line, err := serial.NewLine(cells, nil)
	if err != nil {
		return err
	}
	row := serial.Row{Line: line}
	switch include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		row.Object, err = serial.Body(obj, c.gvk, serial.JSON)
	default:
		kind := schema.GroupVersionKind{Group: metav1.GroupName, Version: c.choice.Version, Kind: negotiate.Metadata}
		row.Object, err = serial.Body(c.kind.Metadata(accessor), kind, serial.JSON)
	}
	t.Rows = func(yield func(serial.Row, error) bool) { yield(row, err) }
	c.formed()
	return c.sendTable(code, t)
}

// rows is how objects are shown, with what is to go with them.
func (c *call) rows(include metav1.IncludeObjectPolicy) cache.Rows {
	rows := cache.Rows{Version: c.version}
	switch include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		rows.Format = c.format(serial.JSON, cache.Whole)
	default:
		rows.Format = c.format(serial.JSON, metadataShape(c.choice))
	}
	var lines *cache.Format
	if c.kind.Custom == nil {
		lines = c.format(serial.JSON, cache.Line)
	}
	rows.Make = func(entries []*cache.Entry) iter.Seq2[serial.Row, error] {
		return func(yield func(serial.Row, error) bool) {
			for _, e := range entries {
				row, err := c.row(e, lines, rows.Format)
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
	return rows
}

// row is an object in the formats of lines and of what goes with them; nil for lines makes them of this version, and for the other
// means that nothing does.
func (c *call) row(e *cache.Entry, lines, f *cache.Format) (row serial.Row, err error) {
	begin := c.times.Begin()
	if lines != nil {
		row.Line, err = e.Encoded(lines)
	} else {
		row.Line, err = c.line(e)
	}
	c.times.Add(latency.Transform, begin)
	if f != nil && err == nil {
		row.Object, err = e.Encoded(f)
	}
	return row, err
}

func (c *call) line(e *cache.Entry) (serial.Line, error) {
	shown, err := c.toWork(e)
	if err != nil {
		return nil, err
	}
	return serial.NewLine(c.cells(shown.Object), nil)
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
