package fieldmanager

import (
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"quintet.dev/quintet/components/apiserver/kinds/scalar"
)

// reapply applies config to live, a pointer to a struct all of which belongs to it, if the manager has applied the same
// fields before, and values are all that it changes. config is of the type and version of the plan. changes reports
// whether the object has changed in more than how its entries are encoded. If ok is false nothing has changed, and it
// takes structured merge: for the first apply of such fields, for conflicts, and for values that aren't plain.
func (p *planned) reapply(
	live metav1.Object, config map[string]any, manager string, now time.Time,
) (changes, ok bool) {
	of := reflect.ValueOf(live).Elem()
	if of.Type() != p.goType || p.verbatim() {
		return false, false
	}
	entries, ok := p.decode(live.GetManagedFields())
	if !ok {
		return false, false
	}
	own := slices.IndexFunc(entries, func(e entry) bool {
		return e.of(manager, metav1.ManagedFieldsOperationApply, p.subresource)
	})
	if own < 0 || slices.ContainsFunc(entries, func(e entry) bool { return e.set.Empty() }) {
		return false, false
	}
	if applied, ok := p.appliedFields(config); !ok || !applied.Equal(*entries[own].FieldsV1) {
		return false, false
	}
	m := valueMerge{path: make(fieldpath.Path, 0, 12)}
	if m.structure(p.plan, of, config, ofType); m.failed {
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
	encoded, ok := encodedEntries(entries)
	if !ok {
		return false, false
	}
	for _, v := range m.values {
		v.set()
	}
	live.SetManagedFields(encoded)
	return len(m.values) > 0, true
}

// rememberApplied learns the fields of config from an apply that structured merge has done.
func (p *planned) rememberApplied(out metav1.Object, config map[string]any, manager string) {
	entries := out.GetManagedFields()
	i := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply &&
			e.Subresource == p.subresource && e.APIVersion == p.version
	})
	if i < 0 || entries[i].FieldsV1 == nil {
		return
	}
	k := p.applied.begin()
	defer p.applied.end(k)
	if shape, ok := k.config(p.plan, config); ok {
		p.applied.remember(shape, entries[i].FieldsV1)
	}
}

// appliedFields are the fields of what is applied, if they are known.
func (p *planned) appliedFields(config map[string]any) (*metav1.FieldsV1, bool) {
	k := p.applied.begin()
	defer p.applied.end(k)
	shape, ok := k.config(p.plan, config)
	if !ok {
		return nil, false
	}
	return p.applied.fields(shape)
}

// disownApplied takes the manager's fields of live if config has them all. Structured merge looks through the object
// several times for fields that are applied no more, and have to go.
func (p *planned) disownApplied(live metav1.Object, config *unstructured.Unstructured, manager string) {
	entries := live.GetManagedFields()
	own := func(e metav1.ManagedFieldsEntry) bool {
		return e.Operation == metav1.ManagedFieldsOperationApply && e.Manager == manager &&
			e.Subresource == p.subresource
	}
	i := slices.IndexFunc(entries, own)
	if i < 0 || slices.ContainsFunc(entries[i+1:], own) || entries[i].APIVersion != p.version {
		return
	}
	//lint:ignore SA1019 structured merge holds it against the schema afterwards
	applied := typed.AsTypedUnvalidated(value.NewValueInterface(config.Object), p.sets.of.Schema(), p.sets.of.TypeRef())
	given, err := applied.ToFieldSet()
	if err == nil && !hasEmptyItem(config.Object) && p.covers(given, entries[i].FieldsV1) {
		entries[i].FieldsV1 = metav1.NewFieldsV1("{}")
	}
}

// covers reports whether all fields of an entry are among those given, without those that writes don't set.
func (p *planned) covers(given *fieldpath.Set, entry *metav1.FieldsV1) bool {
	known := p.sets.decoded(entry)
	if known == nil {
		return false
	}
	if p.filter != nil {
		given = p.filter.Filter(given)
	}
	return known.set.Difference(given).Empty()
}

// valueMerge finds the values of an object that what is applied changes.
type valueMerge struct {
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

func (m *valueMerge) walk(p *plan, at reflect.Value, config any) {
	if !at.IsValid() {
		m.failed = true // it is gone from the object
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

func (m *valueMerge) change(v newValue) {
	m.values = append(m.values, v)
	m.touched = append(m.touched, slices.Clone(m.path))
}

func (m *valueMerge) below(e fieldpath.PathElement, p *plan, at reflect.Value, config any) {
	m.path = append(m.path, e)
	m.walk(p, at, config)
	m.path = m.path[:len(m.path)-1]
}

// structure knows all fields that are given but for some.
func (m *valueMerge) structure(p *plan, at reflect.Value, config map[string]any, others int) {
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

func (m *valueMerge) dictionary(p *plan, at reflect.Value, config map[string]any) {
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
func (m *valueMerge) list(p *plan, at reflect.Value, config []any) {
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
	if !ok || len(item) == 0 { // see hasEmptyItem
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

// hasEmptyItem reports whether there is an item without any field in the lists of what is applied. Where keys have
// defaults it stands for the item that has these, but structured merge takes that away when it is applied again.
func hasEmptyItem(config any) bool {
	switch config := config.(type) {
	case map[string]any:
		for _, below := range config {
			if hasEmptyItem(below) {
				return true
			}
		}
	case []any:
		for _, item := range config {
			if fields, ok := item.(map[string]any); ok && len(fields) == 0 || hasEmptyItem(item) {
				return true
			}
		}
	}
	return false
}

// leaf returns what a value becomes, if that is another.
func (m *valueMerge) leaf(p *plan, at reflect.Value, config any) (next reflect.Value, changes bool) {
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
