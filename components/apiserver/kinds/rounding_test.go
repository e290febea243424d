package kinds_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/randfill"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestAmountsAreRounded to thousandths, wherever resources are listed; but for runtime classes, whose overhead is taken
// as it is.
func TestAmountsAreRounded(t *testing.T) {
	tiny, rounded := resource.MustParse("1n"), resource.MustParse("1m")
	for _, kind := range kinds.Table(api.Deps{}) {
		if kind.Name == "RuntimeClass" {
			continue
		}
		obj := kind.HubVersion().New()
		filler(1).NilChance(0).NumElements(1, 1).Funcs(func(l *corev1.ResourceList, _ randfill.Continue) {
			*l = corev1.ResourceList{"cpu": tiny}
		}).Fill(obj)
		kind.Reread(obj, false)
		walk(reflect.ValueOf(obj), func(v reflect.Value) {
			if l, ok := v.Interface().(corev1.ResourceList); ok {
				if q, has := l["cpu"]; has && q.Cmp(rounded) != 0 {
					t.Errorf("%s: %v", kind.Name, l)
				}
			}
		})
	}
}

// walk calls look for all exported values that v leads to.
func walk(v reflect.Value, look func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), look)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i), look)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), look)
		}
	case reflect.Map:
		look(v)
	}
}
