package fieldmanager

import (
	"encoding/binary"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/equality"
)

// outline is all of a new object that what is booked of it depends on: which fields it has, and the keys of what has keys. Objects
// that were made alike have the same, and what is booked of one is booked of all.
type outline struct {
	text   []byte
	keys   []string // of maps that are being looked through
	failed bool     // it takes compare to tell
}

// Marks in an outline.
const (
	added byte = iota + 0xf8
	changed
	unchanged
	end
)

// mostFields is how many fields of a struct an outline can tell apart.
const mostFields = int(added)

// of draws the outline of what to has and from, which is empty, has not. The text is valid until the next.
func (o *outline) of(p *plan, from, to reflect.Value) (text []byte, ok bool) {
	o.text, o.failed = o.text[:0], false
	o.walk(p, from, to)
	return o.text, !o.failed
}

// walk goes where compare does. from may be absent.
func (o *outline) walk(p *plan, from, to reflect.Value) {
	switch p.form {
	case leaf:
		o.leaf(p, from, to)
	case structure:
		o.structures(p, from, to)
	case dictionary:
		o.dictionaries(p, from, to)
	case keyed, set:
		o.lists(p, from, to)
	case foreign:
		o.failed = o.failed || !from.IsValid() || !equality.Identical(from, to)
	}
}

func (o *outline) mark(m byte) { o.text = append(o.text, m) }

func (o *outline) number(n int) { o.text = binary.AppendUvarint(o.text, uint64(n)) }

func (o *outline) string(s string) {
	o.number(len(s))
	o.text = append(o.text, s...)
}

func (o *outline) leaf(p *plan, from, to reflect.Value) {
	switch {
	case !from.IsValid():
		o.mark(added)
	case same(p, from, to):
		o.mark(unchanged)
	default:
		o.mark(changed)
	}
}

// appears tells whether a value with parts is there only now.
func (o *outline) appears(from reflect.Value) {
	if !from.IsValid() {
		o.mark(added)
	}
	o.mark(end)
}

func (o *outline) structures(p *plan, from, to reflect.Value) {
	a, b := content(from), content(to)
	o.failed = o.failed || len(p.fields) > mostFields
	empty := true
	for i := range p.fields {
		f := &p.fields[i]
		x, y := f.of(a), f.of(b)
		if !x.IsValid() && !y.IsValid() {
			continue
		}
		if !y.IsValid() {
			o.failed = true // an empty object hasn't what others don't have
			return
		}
		empty = false
		o.mark(byte(i))
		o.walk(f.plan, x, y)
	}
	if empty {
		o.leaf(p, from, to)
		return
	}
	o.appears(from)
}

// parts begins a map or a list, and tells whether there is anything in it to go on with.
func (o *outline) parts(p *plan, from, to reflect.Value) bool {
	n := length(content(to))
	switch o.number(n); {
	case length(content(from)) > 0:
		o.failed = true // an empty object hasn't what others don't have
		return false
	case n == 0:
		o.leaf(p, from, to)
	}
	return n > 0
}

func (o *outline) dictionaries(p *plan, from, to reflect.Value) {
	if !o.parts(p, from, to) {
		return
	}
	b := content(to)
	first := len(o.keys)
	for each := b.MapRange(); each.Next(); {
		o.keys = append(o.keys, each.Key().String())
	}
	last := len(o.keys)
	slices.Sort(o.keys[first:last])
	for i := first; i < last; i++ {
		o.string(o.keys[i])
		if p.elem.form == leaf {
			o.mark(added)
			continue
		}
		o.walk(p.elem, reflect.Value{}, b.MapIndex(reflect.ValueOf(o.keys[i]).Convert(b.Type().Key())))
	}
	o.keys = o.keys[:first]
	o.appears(from)
}

func (o *outline) lists(p *plan, from, to reflect.Value) {
	if !o.parts(p, from, to) {
		return
	}
	b := content(to)
	for i := range b.Len() {
		o.item(p, b.Index(i))
		o.walk(p.elem, reflect.Value{}, b.Index(i))
	}
	o.appears(from)
}

// item tells what tells an item of a list from others.
func (o *outline) item(p *plan, item reflect.Value) {
	if p.form == set {
		o.value(item)
		return
	}
	for i := range p.keys {
		switch v := field(p.keys[i].entry, item); {
		case !v.IsValid():
			o.mark(end)
		case v.Kind() == reflect.Pointer && v.IsNil():
			o.failed = true
		default:
			o.value(content(v))
		}
	}
}

// value is one of the kinds that keys and the items of sets have.
func (o *outline) value(v reflect.Value) {
	o.mark(byte(v.Kind()))
	switch v.Kind() {
	case reflect.String:
		o.string(v.String())
	case reflect.Bool:
		if v.Bool() {
			o.mark(1)
			return
		}
		o.mark(0)
	default:
		o.text = binary.AppendVarint(o.text, v.Int())
	}
}

// drawn remembers what is booked of objects, by the texts of their outlines.
type drawn struct {
	outlines sync.Pool // of *outline
	mu       sync.Mutex
	known    map[string]*metav1.FieldsV1 // nil if nothing is booked
}

func (d *drawn) begin() *outline {
	if o, ok := d.outlines.Get().(*outline); ok {
		return o
	}
	return &outline{}
}

func (d *drawn) end(o *outline) { d.outlines.Put(o) }

func (d *drawn) fields(text []byte) (fields *metav1.FieldsV1, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fields, ok = d.known[string(text)]
	return fields, ok
}

func (d *drawn) remember(text []byte, fields *metav1.FieldsV1) {
	if len(text) > maxEncoded {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxSets {
		d.known = map[string]*metav1.FieldsV1{}
	}
	d.known[string(text)] = fields
}
