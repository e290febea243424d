package score

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxFields bounds how many fields an entry lists.
	maxFields = 20
	// maxValue bounds how long a value of a field may be that is recorded, in bytes.
	maxValue = 60
)

// step leads from a value to one in it: into a field of a map, or to an item of a list, by the field that identifies it
// or by its index.
type step struct {
	field string
	key   string // field that identifies the item; "" for an index
	value string
	index int
	item  bool
}

// change is a field whose value differs; absent values are nil.
type change struct {
	path     []step
	from, to any
}

// unobserved are fields of metadata that change with each write, or tell what entries have elsewhere.
var unobserved = map[string]bool{"managedFields": true, "resourceVersion": true}

// typeFields are absent in the items of a list and present in the objects of a watch. Neither changes in an object:
// both are those of the resource.
var typeFields = map[string]bool{"apiVersion": true, "kind": true}

// diff returns the leaves in which two objects differ, in the order of their paths.
func diff(before, after map[string]any) []change {
	var out []change
	diffMaps(nil, before, after, &out)
	return out
}

func diffMaps(path []step, before, after map[string]any, out *[]change) {
	names := slices.Sorted(maps.Keys(after))
	for name := range before {
		if _, kept := after[name]; !kept {
			names = append(names, name)
		}
	}
	inMetadata := len(path) == 1 && path[0].field == "metadata"
	for _, name := range names {
		if inMetadata && unobserved[name] || len(path) == 0 && typeFields[name] {
			continue
		}
		diffValues(append(slices.Clip(path), step{field: name}), before[name], after[name], out)
	}
}

func diffValues(path []step, before, after any, out *[]change) {
	if reflect.DeepEqual(before, after) {
		return
	}
	switch to := after.(type) {
	case map[string]any:
		from, ok := before.(map[string]any)
		if ok || before == nil && len(to) > 0 {
			diffMaps(path, from, to, out)
			return
		}
	case []any:
		from, ok := before.([]any)
		if key := identifier(from, to); (ok || before == nil) && key != "" {
			diffItems(path, key, from, to, out)
			return
		}
		if ok && len(from) == len(to) {
			for i := range to {
				diffValues(append(slices.Clip(path), step{item: true, index: i}), from[i], to[i], out)
			}
			return
		}
	}
	*out = append(*out, change{path, before, after})
}

// identifier is the field that identifies the items of both lists: all have it, as a string, and differ in it.
func identifier(lists ...[]any) string {
	for _, key := range []string{"name", "type", "key", "uid", "ip"} {
		if slices.ContainsFunc(lists, func(list []any) bool { return !identifies(key, list) }) {
			continue
		}
		return key
	}
	return ""
}

func identifies(key string, list []any) bool {
	seen := map[string]bool{}
	for _, item := range list {
		fields, _ := item.(map[string]any)
		value, ok := fields[key].(string)
		if !ok || seen[value] {
			return false
		}
		seen[value] = true
	}
	return true
}

func diffItems(path []step, key string, before, after []any, out *[]change) {
	old := map[string]any{}
	for _, item := range before {
		old[item.(map[string]any)[key].(string)] = item
	}
	at := func(value string) []step { return append(slices.Clip(path), step{item: true, key: key, value: value}) }
	for _, item := range after {
		value := item.(map[string]any)[key].(string)
		if was, ok := old[value]; ok {
			diffValues(at(value), was, item, out)
		} else {
			*out = append(*out, change{at(value), nil, item})
		}
		delete(old, value)
	}
	for _, value := range slices.Sorted(maps.Keys(old)) {
		*out = append(*out, change{at(value), old[value], nil})
	}
}

// pathOf prints a path, as in status.conditions[Ready].status.
func pathOf(path []step) string {
	var b strings.Builder
	for i, s := range path {
		switch {
		case s.item && s.key != "":
			fmt.Fprintf(&b, "[%s]", s.value)
		case s.item:
			fmt.Fprintf(&b, "[%d]", s.index)
		case strings.ContainsAny(s.field, "./"):
			fmt.Fprintf(&b, "[%s]", s.field)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.field)
		}
	}
	return b.String()
}

// fieldsOf are the first of the changes, for an entry, and how many there are beside them. Values are left out of the
// fields of a Secret.
func fieldsOf(changes []change, secret bool) ([]Field, int) {
	var out []Field
	for _, c := range changes[:min(len(changes), maxFields)] {
		f := Field{Path: pathOf(c.path)}
		if !secret {
			f.From, f.To = short(c.from), short(c.to)
		}
		out = append(out, f)
	}
	return out, len(changes) - len(out)
}

// short prints a scalar; other values are known by their path alone.
func short(value any) string {
	text := ""
	switch v := value.(type) {
	case string:
		text = v
	case bool:
		text = strconv.FormatBool(v)
	case json.Number:
		text = v.String()
	case map[string]any, []any:
		text = "…"
	}
	if len(text) > maxValue {
		return strings.ToValidUTF8(text[:maxValue], "") + "…"
	}
	return text
}
