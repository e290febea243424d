package cache

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/serial"
)

// reread is Reread for an object that is written as value.
func (c *Cache) reread(obj api.Object, value []byte) {
	c.Reread(obj)
	if u, ok := obj.(*unstructured.Unstructured); ok && !serial.IsCBOR(value) {
		if read, changed := rereadNumbers(u.Object); changed {
			u.Object = read.(map[string]any)
		}
	}
}

// rereadNumbers makes integers of the floating-point numbers that JSON writes as such. What has none is returned as it
// is, and what has some is copied: others may share the memory.
func rereadNumbers(v any) (read any, changed bool) {
	switch v := v.(type) {
	case float64:
		if i := int64(v); v >= -1<<63 && v < 1<<63 && float64(i) == v {
			return i, true
		}
	case map[string]any:
		out := v
		for key, e := range v {
			if e, ok := rereadNumbers(e); ok {
				if !changed {
					out, changed = maps.Clone(v), true
				}
				out[key] = e
			}
		}
		return out, changed
	case []any:
		out := v
		for i, e := range v {
			if e, ok := rereadNumbers(e); ok {
				if !changed {
					out, changed = slices.Clone(v), true
				}
				out[i] = e
			}
		}
		return out, changed
	}
	return v, false
}
