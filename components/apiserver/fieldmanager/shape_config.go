package fieldmanager

import (
	"encoding/binary"
	"slices"
)

// config encodes the shape of what is applied. ok is false if there is something in it that the plan doesn't know, or
// null. The text is valid until the next call.
func (k *shapeKey) config(p *plan, config map[string]any) (text []byte, ok bool) {
	k.text, k.failed = k.text[:0], false
	k.appliedFields(p, config, ofType)
	return k.text, !k.failed
}

func (k *shapeKey) applied(p *plan, config any) {
	if k.failed {
		return
	}
	switch given := config.(type) {
	case nil:
		k.failed = true
		return
	case map[string]any:
		switch p.form {
		case structure:
			k.appliedFields(p, given, 0)
			return
		case dictionary:
			k.appliedKeys(p, given)
			return
		}
	case []any:
		if p.form == keyed || p.form == set {
			k.appliedItems(p, given)
			return
		}
	}
	k.failed = p.form != leaf
	k.mark(added)
}

// appliedFields knows all fields that are given but for some.
func (k *shapeKey) appliedFields(p *plan, config map[string]any, others int) {
	left := len(config) - others
	k.failed = k.failed || len(p.fields) > mostFields
	for i := range p.fields {
		if given, ok := config[p.fields[i].entry.JsonName]; ok {
			left--
			k.mark(byte(i))
			k.applied(p.fields[i].plan, given)
		}
	}
	k.failed = k.failed || left > 0
	k.mark(end)
}

func (k *shapeKey) appliedKeys(p *plan, config map[string]any) {
	k.number(len(config))
	first := len(k.keys)
	for key := range config {
		k.keys = append(k.keys, key)
	}
	last := len(k.keys)
	slices.Sort(k.keys[first:last])
	for i := first; i < last; i++ {
		k.string(k.keys[i])
		k.applied(p.elem, config[k.keys[i]])
	}
	k.keys = k.keys[:first]
}

func (k *shapeKey) appliedItems(p *plan, config []any) {
	k.number(len(config))
	for _, given := range config {
		if p.form == set {
			k.scalar(given)
			continue
		}
		item, ok := given.(map[string]any)
		if !ok {
			k.failed = true
			return
		}
		for i := range p.keys {
			if v, ok := item[p.keys[i].name]; ok {
				k.scalar(v)
				continue
			}
			k.mark(end)
		}
		k.applied(p.elem, item)
	}
}

// scalar is one of the kinds that keys and the items of sets have.
func (k *shapeKey) scalar(v any) {
	switch v := v.(type) {
	case string:
		k.mark(0)
		k.string(v)
	case int64:
		k.mark(1)
		k.text = binary.AppendVarint(k.text, v)
	case bool:
		if v {
			k.mark(2)
			return
		}
		k.mark(3)
	default:
		k.failed = true
	}
}
