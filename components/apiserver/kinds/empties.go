package kinds

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// emptiesDropper makes nil of the empty lists and maps of an object that the store doesn't tell from nil: with asJSON those that
// JSON leaves out, else all but octets.
func emptiesDropper(t reflect.Type, asJSON bool) func(obj Object) {
	plan := sync.OnceValue(func() *dropper { return (&dropPlanner{asJSON, map[reflect.Type]*dropper{}}).inside(t) })
	return func(obj Object) { plan().drop(reflect.ValueOf(obj)) }
}

// dropper works on a value of the type that it was planned for, whose content can be set, and tells whether it changed something.
// What changes nothing writes nothing: others may share the memory. nil is for types in which there is nothing to drop.
type dropper struct{ do func(v reflect.Value) bool }

func (d *dropper) drop(v reflect.Value) bool { return d != nil && d.do != nil && d.do(v) }

// dropPlanner makes droppers. Types may contain themselves.
type dropPlanner struct {
	asJSON bool
	known  map[reflect.Type]*dropper
}

var jsonMarshaler = reflect.TypeFor[json.Marshaler]()

// inside drops what is empty below a value.
func (p *dropPlanner) inside(t reflect.Type) *dropper {
	if d, ok := p.known[t]; ok {
		return d
	}
	d := &dropper{}
	p.known[t] = d
	switch t.Kind() {
	case reflect.Pointer:
		if elem := p.inside(t.Elem()); elem != nil {
			d.do = func(v reflect.Value) bool { return !v.IsNil() && elem.drop(v.Elem()) }
		}
	case reflect.Slice:
		if elem := p.inside(t.Elem()); elem != nil {
			d.do = elem.items
		}
	case reflect.Map:
		d.do = p.values(t)
	case reflect.Struct:
		d.do = p.fields(t)
	}
	if d.do == nil {
		d = nil
		p.known[t] = nil
	}
	return d
}

func (d *dropper) items(v reflect.Value) (changed bool) {
	for i := range v.Len() {
		changed = d.drop(v.Index(i)) || changed
	}
	return changed
}

// values drops what is empty in a map's values. Those that are lists themselves are read as empty ones, if they are not there.
func (p *dropPlanner) values(t reflect.Type) func(v reflect.Value) bool {
	elem := p.inside(t.Elem())
	lists := !p.asJSON && t.Elem().Kind() == reflect.Slice
	if elem == nil && !lists {
		return nil
	}
	return func(v reflect.Value) (changed bool) {
		for each := v.MapRange(); each.Next(); {
			value := reflect.New(t.Elem()).Elem()
			value.Set(each.Value())
			if lists && value.IsNil() {
				value.Set(reflect.MakeSlice(t.Elem(), 0, 0))
			} else if !elem.drop(value) {
				continue
			}
			v.SetMapIndex(each.Key(), value)
			changed = true
		}
		return changed
	}
}

func (p *dropPlanner) fields(t reflect.Type) func(v reflect.Value) bool {
	if reflect.PointerTo(t).Implements(jsonMarshaler) {
		return nil
	}
	var steps []func(v reflect.Value) bool
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		inner := p.inside(f.Type)
		switch {
		case p.drops(f):
			steps = append(steps, func(v reflect.Value) bool {
				list := v.Field(i)
				if isEmpty(list) {
					list.SetZero()
					return true
				}
				return inner.drop(list)
			})
		case inner != nil:
			steps = append(steps, func(v reflect.Value) bool { return inner.drop(v.Field(i)) })
		}
	}
	if steps == nil {
		return nil
	}
	return func(v reflect.Value) (changed bool) {
		for _, step := range steps {
			changed = step(v) || changed
		}
		return changed
	}
}

// drops tells whether a field is nil when it is read if it was empty.
func (p *dropPlanner) drops(f reflect.StructField) bool {
	switch f.Type.Kind() {
	case reflect.Map, reflect.Slice:
	default:
		return false
	}
	if p.asJSON {
		return strings.Contains(f.Tag.Get("json"), ",omit")
	}
	return f.Type.Kind() == reflect.Map || f.Type.Elem().Kind() != reflect.Uint8
}

func isEmpty(v reflect.Value) bool { return v.Len() == 0 && !v.IsNil() }
