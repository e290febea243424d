package cache

import (
	"maps"
	"slices"
)

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
