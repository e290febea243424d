package checks

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// follows tells of fields that stand elsewhere in upstream's unversioned types: after which other field.
var follows = map[reflect.Type]map[string]string{
	reflect.TypeFor[corev1.VolumeSource]():           {"Quobyte": "RBD"},
	reflect.TypeFor[corev1.PersistentVolumeSource](): {"Quobyte": "RBD", "FlexVolume": "ISCSI"},
}

// fieldOrder lists the fields of a struct, by their index, as the unversioned type has them.
func fieldOrder(t reflect.Type) []int {
	moved := follows[t]
	var out []int
	for i := range t.NumField() {
		if moved[t.Field(i).Name] != "" {
			continue
		}
		out = append(out, i)
		for name, after := range moved {
			if after == t.Field(i).Name {
				f, _ := t.FieldByName(name)
				out = append(out, f.Index[0])
			}
		}
	}
	return out
}
