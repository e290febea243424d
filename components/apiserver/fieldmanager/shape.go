package fieldmanager

import (
	"encoding/binary"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/equality"
)

// shapeKey encodes all of a new object that its field set depends on: which fields it has, and the keys of map entries
// and list items. Objects that were made alike have the same.
type shapeKey struct {
	text   []byte
	keys   []string // of maps that are being looked through
	failed bool     // it takes compare to tell
}

// Marks in a shapeKey.
const (
	added byte = iota + 0xf8
	changed
	unchanged
	end
)

// mostFields is how many fields of a struct a shapeKey can tell apart.
const mostFields = int(added)

// of encodes what to has and from, which is empty, has not. The text is valid until the next call.
func (k *shapeKey) of(p *plan, from, to reflect.Value) (text []byte, ok bool) {
	k.text, k.failed = k.text[:0], false
	k.walk(p, from, to)
	return k.text, !k.failed
}

// walk goes where compare does. from may be absent.
func (k *shapeKey) walk(p *plan, from, to reflect.Value) {
	switch p.form {
	case leaf:
		k.leaf(p, from, to)
	case structure:
		k.structures(p, from, to)
	case dictionary:
		k.dictionaries(p, from, to)
	case keyed, set:
		k.lists(p, from, to)
	case foreign:
		k.failed = k.failed || !from.IsValid() || !equality.Identical(from, to)
	}
}

func (k *shapeKey) mark(m byte) { k.text = append(k.text, m) }

func (k *shapeKey) number(n int) { k.text = binary.AppendUvarint(k.text, uint64(n)) }

func (k *shapeKey) string(s string) {
	k.number(len(s))
	k.text = append(k.text, s...)
}

func (k *shapeKey) leaf(p *plan, from, to reflect.Value) {
	switch {
	case !from.IsValid():
		k.mark(added)
	case same(p, from, to):
		k.mark(unchanged)
	default:
		k.mark(changed)
	}
}

// appears tells whether a value with parts is there only now.
func (k *shapeKey) appears(from reflect.Value) {
	if !from.IsValid() {
		k.mark(added)
	}
	k.mark(end)
}

func (k *shapeKey) structures(p *plan, from, to reflect.Value) {
	a, b := content(from), content(to)
	k.failed = k.failed || len(p.fields) > mostFields
	empty := true
	for i := range p.fields {
		f := &p.fields[i]
		x, y := f.of(a), f.of(b)
		if !x.IsValid() && !y.IsValid() {
			continue
		}
		if !y.IsValid() {
			k.failed = true // an empty object hasn't what others don't have
			return
		}
		empty = false
		k.mark(byte(i))
		k.walk(f.plan, x, y)
	}
	if empty {
		k.leaf(p, from, to)
		return
	}
	k.appears(from)
}

// parts begins a map or a list, and tells whether there is anything in it to go on with.
func (k *shapeKey) parts(p *plan, from, to reflect.Value) bool {
	n := length(content(to))
	switch k.number(n); {
	case length(content(from)) > 0:
		k.failed = true // an empty object hasn't what others don't have
		return false
	case n == 0:
		k.leaf(p, from, to)
	}
	return n > 0
}

func (k *shapeKey) dictionaries(p *plan, from, to reflect.Value) {
	if !k.parts(p, from, to) {
		return
	}
	b := content(to)
	first := len(k.keys)
	for each := b.MapRange(); each.Next(); {
		k.keys = append(k.keys, each.Key().String())
	}
	last := len(k.keys)
	slices.Sort(k.keys[first:last])
	for i := first; i < last; i++ {
		k.string(k.keys[i])
		if p.elem.form == leaf {
			k.mark(added)
			continue
		}
		k.walk(p.elem, reflect.Value{}, b.MapIndex(reflect.ValueOf(k.keys[i]).Convert(b.Type().Key())))
	}
	k.keys = k.keys[:first]
	k.appears(from)
}

func (k *shapeKey) lists(p *plan, from, to reflect.Value) {
	if !k.parts(p, from, to) {
		return
	}
	b := content(to)
	for i := range b.Len() {
		k.item(p, b.Index(i))
		k.walk(p.elem, reflect.Value{}, b.Index(i))
	}
	k.appears(from)
}

// item tells what tells an item of a list from others.
func (k *shapeKey) item(p *plan, item reflect.Value) {
	if p.form == set {
		k.value(item)
		return
	}
	for i := range p.keys {
		switch v := field(p.keys[i].entry, item); {
		case !v.IsValid():
			k.mark(end)
		case v.Kind() == reflect.Pointer && v.IsNil():
			k.failed = true
		default:
			k.value(content(v))
		}
	}
}

// value is one of the kinds that keys and the items of sets have.
func (k *shapeKey) value(v reflect.Value) {
	k.mark(byte(v.Kind()))
	switch v.Kind() {
	case reflect.String:
		k.string(v.String())
	case reflect.Bool:
		if v.Bool() {
			k.mark(1)
			return
		}
		k.mark(0)
	default:
		k.text = binary.AppendVarint(k.text, v.Int())
	}
}

// shapeCache remembers the field sets of objects by their shapes.
type shapeCache struct {
	keys  sync.Pool // of *shapeKey
	mu    sync.Mutex
	known map[string]*metav1.FieldsV1 // nil where there is none to be owned
}

func (c *shapeCache) begin() *shapeKey {
	if k, ok := c.keys.Get().(*shapeKey); ok {
		return k
	}
	return &shapeKey{}
}

func (c *shapeCache) end(k *shapeKey) { c.keys.Put(k) }

func (c *shapeCache) fields(text []byte) (fields *metav1.FieldsV1, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fields, ok = c.known[string(text)]
	return fields, ok
}

func (c *shapeCache) remember(text []byte, fields *metav1.FieldsV1) {
	if len(text) > maxEncoded {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxSets {
		c.known = map[string]*metav1.FieldsV1{}
	}
	c.known[string(text)] = fields
}
