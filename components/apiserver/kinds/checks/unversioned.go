package checks

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// apiTypes is where the types are whose fields have other names in a served version than in memory.
const apiTypes = "k8s.io/api/"

// Unversioned makes a value of a k8s.io/api type be shown in errors as upstream's API server shows it. There the
// objects that are validated have no JSON names, so that all fields appear, set or not, under the names of Go.
// Types that know their own JSON (quantities, times) and those of metav1 appear as everywhere.
func Unversioned(v any) json.Marshaler {
	var b bytes.Buffer
	writeUnversioned(&b, reflect.ValueOf(v))
	return json.RawMessage(b.Bytes())
}

func writeUnversioned(b *bytes.Buffer, v reflect.Value) {
	if !v.IsValid() || nillable(v) && v.IsNil() {
		b.WriteString("null")
		return
	}
	if _, own := v.Interface().(json.Marshaler); own {
		writeJSON(b, v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		writeUnversioned(b, v.Elem())
	case reflect.Struct:
		if !strings.HasPrefix(v.Type().PkgPath(), apiTypes) {
			writeJSON(b, v)
			return
		}
		b.WriteByte('{')
		writeFields(b, v)
		b.WriteByte('}')
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			writeJSON(b, v)
			return
		}
		b.WriteByte('[')
		for i := range v.Len() {
			separate(b)
			writeUnversioned(b, v.Index(i))
		}
		b.WriteByte(']')
	case reflect.Map:
		writeMap(b, v)
	default:
		writeJSON(b, v)
	}
}

// writeFields writes the fields of a struct; those of an embedded one are among them.
func writeFields(b *bytes.Buffer, v reflect.Value) {
	for _, i := range fieldOrder(v.Type()) {
		f := v.Type().Field(i)
		switch {
		case !f.Anonymous:
			separate(b)
			writeName(b, f.Name)
			writeUnversioned(b, v.Field(i))
		case strings.HasPrefix(f.Type.PkgPath(), apiTypes):
			writeFields(b, v.Field(i))
		default: // metadata, which has the same type in all versions
			var inner bytes.Buffer
			writeJSON(&inner, v.Field(i))
			if text := inner.Bytes(); len(text) > len("{}") {
				separate(b)
				b.Write(text[1 : len(text)-1])
			}
		}
	}
}

func writeMap(b *bytes.Buffer, v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	b.WriteByte('{')
	for _, k := range keys {
		separate(b)
		writeName(b, k.String())
		writeUnversioned(b, v.MapIndex(k))
	}
	b.WriteByte('}')
}

func writeName(b *bytes.Buffer, name string) {
	writeJSON(b, reflect.ValueOf(name))
	b.WriteByte(':')
}

func writeJSON(b *bytes.Buffer, v reflect.Value) {
	text, err := json.Marshal(v.Interface())
	if err != nil { // raw content that is no JSON
		text, _ = json.Marshal(err.Error())
	}
	b.Write(text)
}

// separate writes the comma that a further element needs.
func separate(b *bytes.Buffer) {
	if last := b.Bytes()[b.Len()-1]; last != '{' && last != '[' {
		b.WriteByte(',')
	}
}

func nillable(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return true
	}
	return false
}
