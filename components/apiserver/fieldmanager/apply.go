package fieldmanager

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"quintet.dev/quintet/components/apiserver/kinds/scalar"
)

// Most applies repeat what their manager has applied before, with some other values: a controller's, or those of somebody who
// deploys from files. Then nothing goes, nothing comes, and nobody's books change but for the time: the values are all that there
// is to do. Such applies are known by the outline of what is applied, of which structured merge has told once what its fields are.

// Apply does an apply to live, a pointer to a struct of which all belongs to the caller. config is of the type and version of the
// books, and says so. changes tells whether it has changed more than how the books are written. If it isn't ok nothing was changed,
// and it takes structured merge: for the first apply with such fields, for conflicts, and for all that is not plain.
func (b *Books) Apply(live metav1.Object, config map[string]any, manager string, now time.Time) (changes, ok bool) {
	of := reflect.ValueOf(live).Elem()
	if of.Type() != b.goType || b.verbatim() {
		return false, false
	}
	entries, ok := b.open(live.GetManagedFields())
	if !ok {
		return false, false
	}
	own := slices.IndexFunc(entries, func(e entry) bool { return e.of(manager, metav1.ManagedFieldsOperationApply, b.subresource) })
	if own < 0 || slices.ContainsFunc(entries, func(e entry) bool { return e.set.Empty() }) {
		return false, false
	}
	if given, ok := b.given(config); !ok || !given.Equal(*entries[own].FieldsV1) {
		return false, false
	}
	m := merge{path: make(fieldpath.Path, 0, 12)}
	if m.structure(b.plan, of, config, ofType); m.failed {
		return false, false
	}
	for i := range entries {
		if i != own && slices.ContainsFunc(m.touched, entries[i].set.Has) {
			return false, false
		}
	}
	if len(m.values) > 0 {
		entries[own].Time = &metav1.Time{Time: now.UTC()}
	}
	booked, ok := closed(entries)
	if !ok {
		return false, false
	}
	for _, v := range m.values {
		v.set()
	}
	live.SetManagedFields(booked)
	return len(m.values) > 0, true
}

// Applied is told of an apply that structured merge has done.
func (b *Books) Applied(out metav1.Object, config map[string]any, manager string) {
	entries := out.GetManagedFields()
	i := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == b.subresource && e.APIVersion == b.version
	})
	if i < 0 || entries[i].FieldsV1 == nil {
		return
	}
	o := b.applied.begin()
	defer b.applied.end(o)
	if text, ok := o.config(b.plan, config); ok {
		b.applied.remember(text, entries[i].FieldsV1)
	}
}

// given are the fields of what is applied, if they are known.
func (b *Books) given(config map[string]any) (*metav1.FieldsV1, bool) {
	o := b.applied.begin()
	defer b.applied.end(o)
	text, ok := o.config(b.plan, config)
	if !ok {
		return nil, false
	}
	return b.applied.fields(text)
}

// merge finds out which values of an object get another by what is applied.
type merge struct {
	path    fieldpath.Path
	touched []fieldpath.Path
	values  []newValue
	failed  bool // it takes structured merge
}

// newValue is what a part of the object is to be, or, with a key, of a map in it.
type newValue struct{ at, key, value reflect.Value }

func (v *newValue) set() {
	if v.key.IsValid() {
		v.at.SetMapIndex(v.key, v.value)
		return
	}
	v.at.Set(v.value)
}

// ofType is how many fields say what an object is; plans don't know them.
const ofType = 2

func (m *merge) walk(p *plan, at reflect.Value, config any) {
	if !at.IsValid() {
		m.failed = true // somebody has taken it away
		return
	}
	switch given := config.(type) {
	case map[string]any:
		switch {
		case p.form == structure && content(at).IsValid():
			m.structure(p, content(at), given, 0)
			return
		case p.form == dictionary && p.elem.form == leaf && content(at).IsValid():
			m.dictionary(p, content(at), given)
			return
		}
	case []any:
		if (p.form == keyed || p.form == set) && content(at).IsValid() {
			m.list(p, content(at), given)
			return
		}
	}
	if p.form != leaf {
		m.failed = true
		return
	}
	if next, ok := m.leaf(p, at, config); ok {
		m.change(newValue{at: at, value: next})
	}
}

func (m *merge) change(v newValue) {
	m.values = append(m.values, v)
	m.touched = append(m.touched, slices.Clone(m.path))
}

func (m *merge) below(e fieldpath.PathElement, p *plan, at reflect.Value, config any) {
	m.path = append(m.path, e)
	m.walk(p, at, config)
	m.path = m.path[:len(m.path)-1]
}

// structure knows all fields that are given but for some.
func (m *merge) structure(p *plan, at reflect.Value, config map[string]any, others int) {
	left := len(config) - others
	for i := range p.fields {
		f := &p.fields[i]
		given, ok := config[f.entry.JsonName]
		if !ok {
			continue
		}
		left--
		m.below(f.element, f.plan, f.of(at), given)
	}
	m.failed = m.failed || left > 0
}

func (m *merge) dictionary(p *plan, at reflect.Value, config map[string]any) {
	for name, given := range config {
		key := reflect.ValueOf(name).Convert(at.Type().Key())
		is := at.MapIndex(key)
		if !is.IsValid() {
			m.failed = true
			return
		}
		if next, ok := m.leaf(p.elem, is, given); ok {
			m.path = append(m.path, fieldpath.FieldNameElement(name))
			m.change(newValue{at, key, next})
			m.path = m.path[:len(m.path)-1]
		}
	}
}

// list takes each item for the one that has its key. They must all be there, in the same order: it stays as it is then.
func (m *merge) list(p *plan, at reflect.Value, config []any) {
	var c changes
	is := c.items(p, at, at.Len())
	last := -1
	for _, given := range config {
		e, ok := p.elementOf(given)
		if m.failed = m.failed || c.failed || !ok; m.failed {
			return
		}
		place, ok := is.places.Get(e)
		if !ok || place.(int) <= last {
			m.failed = true
			return
		}
		last = place.(int)
		if p.form == keyed {
			m.below(e, p.elem, at.Index(last), given)
		}
	}
}

// elementOf is the path element of an item that is applied.
func (p *plan) elementOf(given any) (e fieldpath.PathElement, ok bool) {
	if p.form == set {
		switch given.(type) {
		case string, bool, int64:
			return fieldpath.ValueElement(value.NewValueInterface(given)), true
		}
		return e, false
	}
	item, ok := given.(map[string]any)
	if !ok || len(item) == 0 { // see Blank
		return e, false
	}
	keys := make(value.FieldList, 0, len(p.keys))
	for i := range p.keys {
		k := &p.keys[i]
		switch v := item[k.name].(type) {
		case string, bool, int64:
			keys = append(keys, value.Field{Name: k.name, Value: value.NewValueInterface(v)})
		case nil:
			if _, given := item[k.name]; given {
				return e, false
			}
			if k.fallback != nil {
				keys = append(keys, value.Field{Name: k.name, Value: k.fallback})
			}
		default:
			return e, false
		}
	}
	return fieldpath.PathElement{Key: &keys}, len(keys) > 0
}

// Blank tells whether there is an item without any field in the lists of what is applied. Where keys have defaults it stands for
// the item that has these, but structured merge takes that away when it is applied again.
func Blank(config any) bool {
	switch config := config.(type) {
	case map[string]any:
		for _, below := range config {
			if Blank(below) {
				return true
			}
		}
	case []any:
		for _, item := range config {
			if fields, ok := item.(map[string]any); ok && len(fields) == 0 || Blank(item) {
				return true
			}
		}
	}
	return false
}

// leaf returns what a value becomes, if that is another.
func (m *merge) leaf(p *plan, at reflect.Value, config any) (next reflect.Value, changes bool) {
	if text, ok := config.(string); ok && p.plain && at.Kind() == reflect.String && at.String() == text {
		return next, false
	}
	if !p.plain {
		is, err := valueOf(at)
		if err == nil && value.Equals(is, value.NewValueInterface(config)) {
			return next, false
		}
	}
	next = reflect.New(at.Type()).Elem()
	if !scalar.Decode(next, config) {
		m.failed = true
		return next, false
	}
	return next, !p.plain || !same(p, at, next)
}

// IsVerbatim tells whether something in objects of a Go type, a struct, is kept as a client has written it.
func IsVerbatim(goType reflect.Type) bool { return isVerbatim(goType, map[reflect.Type]bool{}) }

// isVerbatim tells whether something in a type is kept as a client has written it. What goes through maps or text is written anew.
func isVerbatim(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return isVerbatim(t.Elem(), seen)
	case reflect.Struct:
	default:
		return false
	}
	if seen[t] || t == reflect.TypeFor[metav1.ManagedFieldsEntry]() {
		return false
	}
	seen[t] = true
	writes := t.Implements(reflect.TypeFor[json.Marshaler]())
	for i := range t.NumField() {
		if f := t.Field(i).Type; writes && f == reflect.TypeFor[[]byte]() || isVerbatim(f, seen) {
			return true
		}
	}
	return false
}
