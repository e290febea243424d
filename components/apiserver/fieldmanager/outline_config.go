package fieldmanager

import (
	"encoding/binary"
	"slices"
)

// config draws the outline of what is applied, of which it has nothing but what the plan knows, nulls aside. The text is valid until
// the next.
func (o *outline) config(p *plan, config map[string]any) (text []byte, ok bool) {
	o.text, o.failed = o.text[:0], false
	o.appliedFields(p, config, ofType)
	return o.text, !o.failed
}

func (o *outline) applied(p *plan, config any) {
	if o.failed {
		return
	}
	switch given := config.(type) {
	case nil:
		o.failed = true
		return
	case map[string]any:
		switch p.form {
		case structure:
			o.appliedFields(p, given, 0)
			return
		case dictionary:
			o.appliedKeys(p, given)
			return
		}
	case []any:
		if p.form == keyed || p.form == set {
			o.appliedItems(p, given)
			return
		}
	}
	o.failed = p.form != leaf
	o.mark(added)
}

// appliedFields knows all fields that are given but for some.
func (o *outline) appliedFields(p *plan, config map[string]any, others int) {
	left := len(config) - others
	o.failed = o.failed || len(p.fields) > mostFields
	for i := range p.fields {
		if given, ok := config[p.fields[i].entry.JsonName]; ok {
			left--
			o.mark(byte(i))
			o.applied(p.fields[i].plan, given)
		}
	}
	o.failed = o.failed || left > 0
	o.mark(end)
}

func (o *outline) appliedKeys(p *plan, config map[string]any) {
	o.number(len(config))
	first := len(o.keys)
	for key := range config {
		o.keys = append(o.keys, key)
	}
	last := len(o.keys)
	slices.Sort(o.keys[first:last])
	for i := first; i < last; i++ {
		o.string(o.keys[i])
		o.applied(p.elem, config[o.keys[i]])
	}
	o.keys = o.keys[:first]
}

func (o *outline) appliedItems(p *plan, config []any) {
	o.number(len(config))
	for _, given := range config {
		if p.form == set {
			o.scalar(given)
			continue
		}
		item, ok := given.(map[string]any)
		if !ok {
			o.failed = true
			return
		}
		for i := range p.keys {
			if v, ok := item[p.keys[i].name]; ok {
				o.scalar(v)
				continue
			}
			o.mark(end)
		}
		o.applied(p.elem, item)
	}
}

// scalar is one of the kinds that keys and the items of sets have.
func (o *outline) scalar(v any) {
	switch v := v.(type) {
	case string:
		o.mark(0)
		o.string(v)
	case int64:
		o.mark(1)
		o.text = binary.AppendVarint(o.text, v)
	case bool:
		if v {
			o.mark(2)
			return
		}
		o.mark(3)
	default:
		o.failed = true
	}
}
