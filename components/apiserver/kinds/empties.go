package kinds

import (
	"reflect"
	"strings"
	"sync"
)

// emptiesDropper makes nil of the empty lists and maps of an object that JSON shows also when they are empty. Stored
// objects have none of these, as protobuf can't tell them from nil, and what a write answers is what is stored.
func emptiesDropper(t reflect.Type) func(obj Object) {
	plan := sync.OnceValue(func() dropper { return planOf(t, map[reflect.Type]bool{}) })
	return func(obj Object) {
		if drop := plan(); drop != nil {
			drop(reflect.ValueOf(obj))
		}
	}
}

// dropper works on an addressable value of the type that it was planned for.
type dropper func(v reflect.Value)

// planOf looks for what there is to do in a type; nil is nothing. Types above are those that the type is part of: what
// contains itself (schemas) has no such fields there.
func planOf(t reflect.Type, above map[reflect.Type]bool) dropper {
	if above[t] {
		return nil
	}
	above[t] = true
	defer delete(above, t)
	switch t.Kind() {
	case reflect.Pointer:
		return planElem(t, above)
	case reflect.Slice:
		elem := planOf(t.Elem(), above)
		if elem == nil {
			return nil
		}
		return func(v reflect.Value) {
			for i := range v.Len() {
				elem(v.Index(i))
			}
		}
	case reflect.Struct:
		if strings.HasPrefix(t.PkgPath(), "k8s.io/api/") {
			return planFields(t, above)
		}
	}
	return nil
}

func planElem(t reflect.Type, above map[reflect.Type]bool) dropper {
	elem := planOf(t.Elem(), above)
	if elem == nil {
		return nil
	}
	return func(v reflect.Value) {
		if !v.IsNil() {
			elem(v.Elem())
		}
	}
}

func planFields(t reflect.Type, above map[reflect.Type]bool) dropper {
	var steps []dropper
	for i := range t.NumField() {
		f := t.Field(i)
		if k := f.Type.Kind(); (k == reflect.Slice || k == reflect.Map) && !strings.Contains(f.Tag.Get("json"), "omit") {
			steps = append(steps, func(v reflect.Value) {
				if list := v.Field(i); list.Len() == 0 && !list.IsNil() {
					list.SetZero()
				}
			})
		}
		if inner := planOf(f.Type, above); inner != nil {
			steps = append(steps, func(v reflect.Value) { inner(v.Field(i)) })
		}
	}
	if steps == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, step := range steps {
			step(v)
		}
	}
}
