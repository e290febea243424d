package api

import (
	"encoding/json"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rereaderOf makes of an object what reading it from the store would: structured merge compares lists to the last bit,
// so what lies in memory must not show where it came from. Empty lists and maps are nil that the store doesn't tell
// from nil (all but octets), amounts are read from their canonical form, and times are as exact as the store has them.
// With asJSON the object goes through that form, whose types have rules of their own: an additionalProperties with a
// schema allows, whatever protobuf said beside it.
func rereaderOf(t reflect.Type, asJSON bool) func(obj Object) {
	if asJSON {
		return func(obj Object) { rereadJSON(t, obj) }
	}
	plan := sync.OnceValue(func() *rereader { return (&rereadPlanner{known: map[reflect.Type]*rereader{}}).inside(t) })
	return func(obj Object) { plan().change(reflect.ValueOf(obj)) }
}

// rereadJSON leaves an object alone that has no such form: it can't have been stored either.
func rereadJSON(t reflect.Type, obj Object) {
	form, err := json.Marshal(obj)
	if err != nil {
		return
	}
	read := reflect.New(t.Elem())
	if err := json.Unmarshal(form, read.Interface()); err == nil {
		reflect.ValueOf(obj).Elem().Set(read.Elem())
	}
}

// rereader works on a value of the type that it was planned for, whose content can be set, and tells whether it changed
// something. What changes nothing writes nothing: others may share the memory. nil is for types in which there is
// nothing to change.
type rereader struct{ do func(v reflect.Value) bool }

func (d *rereader) change(v reflect.Value) bool { return d != nil && d.do != nil && d.do(v) }

// rereadPlanner makes rereaders. Types may contain themselves.
type rereadPlanner struct{ known map[reflect.Type]*rereader }

// inside changes what lies below a value.
func (p *rereadPlanner) inside(t reflect.Type) *rereader {
	if d, ok := p.known[t]; ok {
		return d
	}
	d := &rereader{}
	p.known[t] = d
	switch t.Kind() {
	case reflect.Pointer:
		if elem := p.inside(t.Elem()); elem != nil {
			d.do = func(v reflect.Value) bool { return !v.IsNil() && elem.change(v.Elem()) }
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

func (d *rereader) items(v reflect.Value) (changed bool) {
	for i := range v.Len() {
		changed = d.change(v.Index(i)) || changed
	}
	return changed
}

// values changes what is in a map's values. Those that are lists themselves are read as empty ones, if they are not
// there.
func (p *rereadPlanner) values(t reflect.Type) func(v reflect.Value) bool {
	elem := p.inside(t.Elem())
	lists := t.Elem().Kind() == reflect.Slice
	if elem == nil && !lists {
		return nil
	}
	return func(v reflect.Value) (changed bool) {
		for each := v.MapRange(); each.Next(); {
			value := reflect.New(t.Elem()).Elem()
			value.Set(each.Value())
			if lists && value.IsNil() {
				value.Set(reflect.MakeSlice(t.Elem(), 0, 0))
			} else if !elem.change(value) {
				continue
			}
			v.SetMapIndex(each.Key(), value)
			changed = true
		}
		return changed
	}
}

func (p *rereadPlanner) fields(t reflect.Type) func(v reflect.Value) bool {
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		return rereadQuantity
	case t == reflect.TypeFor[metav1.Time]():
		return func(v reflect.Value) bool { return setTime(&v.Addr().Interface().(*metav1.Time).Time, time.Second) }
	case t == reflect.TypeFor[metav1.MicroTime]():
		return func(v reflect.Value) bool {
			return setTime(&v.Addr().Interface().(*metav1.MicroTime).Time, time.Microsecond)
		}
	}
	var steps []func(v reflect.Value) bool
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		inner := p.inside(f.Type)
		switch {
		case drops(f.Type):
			steps = append(steps, func(v reflect.Value) bool {
				list := v.Field(i)
				if isEmpty(list) {
					list.SetZero()
					return true
				}
				return inner.change(list)
			})
		case inner != nil:
			steps = append(steps, func(v reflect.Value) bool { return inner.change(v.Field(i)) })
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

// drops tells whether a list or map of a type is nil when it is read if it was empty.
func drops(t reflect.Type) bool {
	return t.Kind() == reflect.Map || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8
}

func isEmpty(v reflect.Value) bool { return v.Len() == 0 && !v.IsNil() }

// rereadQuantity leaves those alone that are too large or too exact for a plain number.
func rereadQuantity(v reflect.Value) bool {
	q := v.Addr().Interface().(*resource.Quantity)
	if !v.FieldByName("d").Field(0).IsNil() {
		return false
	}
	own := *q // which remembers its text
	read, err := resource.ParseQuantity(own.String())
	if err != nil || read == *q {
		return false
	}
	*q = read
	return true
}

func setTime(t *time.Time, unit time.Duration) bool {
	if t.IsZero() {
		return false
	}
	stored := time.Unix(t.Unix(), int64(t.Nanosecond())/int64(unit)*int64(unit))
	if *t == stored { //nolint:staticcheck // the clock that it was read from is to go as well
		return false
	}
	*t = stored
	return true
}
