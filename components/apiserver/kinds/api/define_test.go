package api

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// notCopied are the fields of Row that Kind has under the same name, and that Define makes something else of.
var notCopied = []string{"Strategy", "Subresources", "Row", "RowConditions", "RowOrder", "Fields", "TTL", "CreateFunc",
	"Read", "OnRead"}

// something returns a value of a type that isn't its zero value.
func something(t *testing.T, of reflect.Type) reflect.Value {
	t.Helper()
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int:
		v.SetInt(2)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(of, 1, 1))
	case reflect.Struct:
		v.Field(0).Set(something(t, of.Field(0).Type))
	case reflect.Func:
		v.Set(reflect.MakeFunc(of, func([]reflect.Value) (out []reflect.Value) {
			for i := range of.NumOut() {
				out = append(out, reflect.Zero(of.Out(i)))
			}
			return out
		}))
	default:
		t.Fatalf("no value of %s", of)
	}
	return v
}

// TestDefineForgetsNothing: what a row has in a field that Kind has, too, is in the kind that is made of it.
func TestDefineForgetsNothing(t *testing.T) {
	row := Row[*corev1.Pod]{Row: func(*corev1.Pod) []any { return nil }}
	rows, kinds := reflect.ValueOf(&row).Elem(), reflect.TypeFor[Kind]()
	var copied []string
	for i := range rows.NumField() {
		name := rows.Type().Field(i).Name
		if field, both := kinds.FieldByName(name); both && !slices.Contains(notCopied, name) {
			if field.Type != rows.Field(i).Type() {
				t.Fatalf("%s is of another type in Kind", name)
			}
			rows.Field(i).Set(something(t, field.Type))
			copied = append(copied, name)
		}
	}
	row.AsJSON, row.Cluster = true, true
	kind := Define(row)
	for _, name := range copied {
		if got := reflect.ValueOf(kind).Elem().FieldByName(name); !reflect.DeepEqual(got.Interface(),
			rows.FieldByName(name).Interface()) {
			t.Errorf("%s is %v", name, got)
		}
	}
	if len(copied) < 10 || !kind.StoredAsJSON || kind.Namespaced {
		t.Errorf("copied %v, as JSON %v, namespaced %v", copied, kind.StoredAsJSON, kind.Namespaced)
	}
}

// TestFunctionsOfRow: each function of a row has its counterpart in the kind, and none comes of nothing.
func TestFunctionsOfRow(t *testing.T) {
	var row Row[*corev1.Pod]
	plain := reflect.ValueOf(Define(row)).Elem()
	for _, name := range []string{"RowConditions", "RowOrder", "TTL", "CreateFunc", "Read", "OnRead"} {
		if !plain.FieldByName(name).IsNil() {
			t.Errorf("%s comes of nothing", name)
		}
		full := row
		field := reflect.ValueOf(&full).Elem().FieldByName(name)
		field.Set(something(t, field.Type()))
		if reflect.ValueOf(Define(full)).Elem().FieldByName(name).IsNil() {
			t.Errorf("%s is forgotten", name)
		}
	}
}

// TestEraseForgetsNothing: what a strategy says of its type is said of any object, and a hook that is nil stays so.
func TestEraseForgetsNothing(t *testing.T) {
	var given Strategy[*corev1.Pod]
	values := reflect.ValueOf(&given).Elem()
	for i := range values.NumField() {
		if name := values.Type().Field(i).Name; name != "ResetFields" { // which are made of Reset
			values.Field(i).Set(something(t, values.Field(i).Type()))
		}
	}
	none := reflect.ValueOf(Strategy[*corev1.Pod]{}.Erase())
	all := reflect.ValueOf(given.Erase(corev1.SchemeGroupVersion))
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if all.Field(i).IsZero() {
			t.Errorf("%s is forgotten", name)
		}
		if !none.Field(i).IsZero() {
			t.Errorf("%s comes of nothing", name)
		}
	}
}
