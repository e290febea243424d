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
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/latency"
)

// rowObject reads what of its object goes with each row of a Table.
func (o *responder) rowObject() (metav1.IncludeObjectPolicy, error) {
	if o.r.URL.RawQuery == "" {
		return "", nil
	}
	options := metav1.TableOptions{IncludeObject: metav1.IncludeObjectPolicy(o.r.URL.Query().Get("includeObject"))}
	switch errs := validation.ValidateTableOptions(&options); len(errs) {
	case 0:
		return options.IncludeObject, nil
	case 1:
		return "", apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs[0].Error())
	default:
		return "", apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs))
	}
}

// table answers with a Table. version is its resource version when that isn't the list's.
func (o *responder) table(code int, l *cache.List, version string) error {
	include, err := o.rowObject()
	if err != nil {
		return err
	}
	entries := l.Entries
	if order := o.Kind.RowOrder; order != nil {
		entries = slices.SortedStableFunc(slices.Values(entries), func(a, b *cache.Entry) int {
			return order(a.Object, b.Object)
		})
	}
	rows := o.rows(include)
	t := codec.Table{
		Kind: codec.TableKind(o.choice.Version), Meta: l.Meta(), Columns: o.Columns(), Rows: rows.Make(entries),
		NullIfEmpty: o.Kind.PlainRows, Now: o.api.config.Clock.Now(),
	}
	if version != "" {
		t.Meta.ResourceVersion = version
	}
	o.formed()
	o.auditTable(l, t, rows)
	// The rows of custom resources are made with ages.
	if o.choice.Media == codec.JSON && !o.choice.Pretty && o.zips() && l.CanZip() && o.Kind.Custom == nil {
		return o.serialized(func() error {
			return o.sendZipped(func(w io.Writer) error { return l.WriteZippedTable(w, entries, rows, t) })
		})
	}
	return o.sendTable(code, t)
}

func (o *responder) sendTable(code int, t codec.Table) error {
	write := func(w io.Writer) error { return codec.WriteTable(w, o.choice.Media, t) }
	if o.choice.Pretty && o.choice.Media == codec.JSON {
		write = indented(write)
	}
	return o.serialized(func() error { return o.send(code, write) })
}

// plainTable answers with the Table of one object that is in no cache.
func (o *responder) plainTable(code int, obj runtime.Object) error {
	include, err := o.rowObject()
	if err != nil {
		return err
	}
	accessor := obj.(metav1.Object)
	var cells []any
	t := codec.Table{
		Kind: codec.TableKind(o.choice.Version), Columns: o.Columns(),
		Meta: metav1.ListMeta{ResourceVersion: accessor.GetResourceVersion()}, Now: o.api.config.Clock.Now(),
	}
	if scale, ok := obj.(*autoscalingv1.Scale); ok && o.IsScale() {
		t.Columns, cells = scaleColumns(), scaleRow(scale)
		if o.Kind.Custom != nil {
			t.Columns, cells = customScaleColumns(), customScaleRow(scale)
		}
	} else {
		cells = o.Cells(obj.(api.Object))
	}
	line, err := codec.NewTableRow(cells, nil)
	if err != nil {
		return err
	}
	row := codec.Row{Cells: line}
	switch include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		row.Object, err = codec.Body(obj, o.GVK, codec.JSON)
	default:
		kind := schema.GroupVersionKind{Group: metav1.GroupName, Version: o.choice.Version, Kind: negotiate.Metadata}
		row.Object, err = codec.Body(o.Kind.Metadata(accessor), kind, codec.JSON)
	}
	t.Rows = func(yield func(codec.Row, error) bool) { yield(row, err) }
	o.formed()
	return o.sendTable(code, t)
}

// rows is how objects are shown, with what is to go with them.
func (o *responder) rows(include metav1.IncludeObjectPolicy) cache.Rows {
	rows := cache.Rows{Version: o.Version}
	switch include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		rows.Format = o.Format(codec.JSON, cache.Whole)
	default:
		rows.Format = o.Format(codec.JSON, metadataShape(o.choice))
	}
	var lines *cache.Format
	if o.Kind.Custom == nil {
		lines = o.Format(codec.JSON, cache.TableRow)
	}
	rows.Make = func(entries []*cache.Entry) iter.Seq2[codec.Row, error] {
		return func(yield func(codec.Row, error) bool) {
			for _, e := range entries {
				row, err := o.row(e, lines, rows.Format)
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
	return rows
}

// row is an object in the formats of lines and of what goes with them; nil for lines makes them of this version, and
// for the other means that nothing does.
func (o *responder) row(e *cache.Entry, lines, f *cache.Format) (row codec.Row, err error) {
	begin := o.times.Begin()
	if lines != nil {
		row.Cells, err = e.Encoded(lines)
	} else {
		row.Cells, err = o.tableRow(e)
	}
	o.times.Add(latency.Transform, begin)
	if f != nil && err == nil {
		row.Object, err = e.Encoded(f)
	}
	return row, err
}

func (o *responder) tableRow(e *cache.Entry) (codec.TableRow, error) {
	shown, err := o.ToWork(e)
	if err != nil {
		return nil, err
	}
	return codec.NewTableRow(o.Cells(shown.Object), nil)
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
