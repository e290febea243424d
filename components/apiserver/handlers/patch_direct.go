package handlers

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/scalar"
)

// Most patches say of a few fields what their values are to be: labels, annotations, a phase. Of those it needs no map
// nor text of the object to see what becomes of it. Merge patches and strategic ones mean the same then.

// plainly is the patched object, if that can be told by setting fields of the Go value. It has nothing of current's
// memory.
func (p *patcher) plainly(current api.Object) (api.Object, bool) {
	if p.kind == types.JSONPatchType || !p.HasStoredType() ||
		reflect.TypeOf(current) != reflect.TypeOf(p.Version.New()) {
		return nil, false
	}
	var patch map[string]any
	if problems, err := kjson.UnmarshalStrict(p.body, &patch); err != nil || len(problems) > 0 || len(patch) == 0 ||
		!isPlain(patch) {
		return nil, false
	}
	out := current.DeepCopyObject().(api.Object)
	if !setFields(reflect.ValueOf(out).Elem(), patch) || p.Check(out) != nil {
		return nil, false
	}
	return out, true
}

// isPlain tells whether there is nothing in a patch but values for names: no lists, no directives.
func isPlain(patch map[string]any) bool {
	for name, given := range patch {
		switch given := given.(type) {
		case string, bool, int64, nil:
		case map[string]any:
			if !isPlain(given) {
				return false
			}
		default:
			return false
		}
		if strings.HasPrefix(name, "$") {
			return false
		}
	}
	return true
}

// setFields sets fields of a struct by their names in JSON.
func setFields(of reflect.Value, patch map[string]any) bool {
	for name, given := range patch {
		f, ok := fieldNamed(of.Type(), name)
		if !ok || !setField(of.FieldByIndex(f.Index), f, given) {
			return false
		}
	}
	return true
}

func setField(at reflect.Value, f reflect.StructField, given any) bool {
	below, isMap := given.(map[string]any)
	if !isMap {
		return given != nil && scalar.Decode(at, given)
	}
	if f.Tag.Get("patchStrategy") != "" {
		return false
	}
	if at.Kind() == reflect.Pointer {
		if at.IsNil() {
			return false
		}
		at = at.Elem()
	}
	if texts, ok := at.Addr().Interface().(*map[string]string); ok {
		return setTexts(texts, below)
	}
	return at.Kind() == reflect.Struct && !reflect.PointerTo(at.Type()).Implements(marshaler) && setFields(at, below)
}

// setTexts sets keys of a map, and takes out those that are null. Whether it is empty or not there at all is for others
// to tell.
func setTexts(m *map[string]string, patch map[string]any) bool {
	for key, given := range patch {
		switch text, ok := given.(string); {
		case ok && *m == nil:
			*m = map[string]string{key: text}
		case ok:
			(*m)[key] = text
		case given == nil:
			delete(*m, key)
		default:
			return false
		}
	}
	return len(*m) > 0
}

// fieldNamed finds a field that is the struct's own; what says of which kind and version it is isn't to be found.
func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && tag != "" && tag != "-" {
			return f, true
		}
	}
	return reflect.StructField{}, false
}
