package fieldmanager

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// form is how values of a type are compared.
type form int

const (
	leaf       form = iota // as a whole
	structure              // field by field
	dictionary             // key by key
	keyed                  // item by item, which some of their fields tell apart
	set                    // item by item, which are plain values
	foreign                // not at all: nothing is said of objects in which there is such a value
)

// plan says how the values of a Go type are compared that the schema describes as it does.
type plan struct {
	form   form
	plain  bool   // of a leaf: Go's own comparison tells all
	fields []part // of a structure, in the order of their names
	keys   []key  // of a keyed list, in the order of their names
	elem   *plan  // of dictionaries and lists
}

type part struct {
	entry   *value.FieldCacheEntry
	element fieldpath.PathElement
	plan    *plan
	index   int  // in the struct; -1 for what lies in embedded ones
	omitted bool // when it is zero
}

// of is the part of a struct; absent if that has none.
func (f *part) of(from reflect.Value) reflect.Value {
	if !from.IsValid() {
		return from
	}
	if f.index < 0 {
		return field(f.entry, from)
	}
	v := from.Field(f.index)
	if f.omitted && v.IsZero() || f.entry.CanOmit(v) {
		return reflect.Value{}
	}
	return v
}

type key struct {
	name     string
	entry    *value.FieldCacheEntry
	fallback value.Value // of items that don't have it; nil leaves it out
}

// planner makes plans of the types that one schema describes, each once, as most are parts of many kinds. Named types
// may contain themselves. It is safe for concurrent use.
type planner struct {
	schema *schema.Schema
	mu     sync.Mutex // is held until a plan is whole
	known  map[pair]*plan
}

// newPlanner returns a planner that has no plans yet.
func newPlanner(schema *schema.Schema) *planner {
	return &planner{schema: schema, known: map[pair]*plan{}}
}

func (p *planner) of(t reflect.Type, ref schema.TypeRef) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plan(t, ref)
}

type pair struct {
	goType reflect.Type
	name   string
}

func (p *planner) plan(t reflect.Type, ref schema.TypeRef) *plan {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if ref.NamedType == nil || ref.ElementRelationship != nil {
		out := &plan{}
		p.fill(out, t, ref)
		return out
	}
	id := pair{t, *ref.NamedType}
	out := p.known[id]
	if out == nil {
		out = &plan{}
		p.known[id] = out
		p.fill(out, t, ref)
	}
	return out
}

func (p *planner) fill(out *plan, t reflect.Type, ref schema.TypeRef) {
	out.form = foreign
	atom, ok := p.schema.Resolve(ref)
	if !ok {
		return
	}
	if whole(atom) {
		out.form = leaf
		out.plain = isPlain(t)
		return
	}
	if atom.Scalar != nil || (atom.Map != nil) == (atom.List != nil) || converts(t) {
		return // it depends on the value
	}
	switch {
	case atom.Map != nil && t.Kind() == reflect.Struct:
		p.structure(out, t, atom.Map)
	case atom.Map != nil && t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		out.form, out.elem = dictionary, p.plan(t.Elem(), atom.Map.ElementType)
	case atom.List != nil && atom.List.ElementRelationship == schema.Associative && t.Kind() == reflect.Slice:
		p.list(out, t.Elem(), atom.List)
	}
}

// whole tells whether all that such values can be is compared as a whole.
func whole(a schema.Atom) bool {
	return (a.Scalar != nil || a.Map != nil || a.List != nil) &&
		(a.Map == nil || a.Map.ElementRelationship == schema.Atomic) &&
		(a.List == nil || a.List.ElementRelationship == schema.Atomic)
}

// converts tells whether structured merge looks at values of a type in the form that they have in JSON.
func converts(t reflect.Type) bool { return value.TypeReflectEntryOf(t).CanConvertToUnstructured() }

func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return !converts(t)
	}
	return false
}

func (p *planner) structure(out *plan, t reflect.Type, m *schema.Map) {
	out.form = structure
	empty, indices := reflect.New(t).Elem(), direct(t)
	for _, entry := range value.TypeReflectEntryOf(t).OrderedFields() {
		ref := m.ElementType
		if i := slices.IndexFunc(m.Fields,
			func(f schema.StructField) bool { return f.Name == entry.JsonName }); i >= 0 {
			ref = m.Fields[i].Type // m.FindField would make an index, which is used but once
		}
		// The types of fields that lie in embedded structs are found through these, too.
		zero := entry.GetFrom(empty)
		index, ok := indices[entry.JsonName]
		if !ok {
			index = -1
		}
		out.fields = append(out.fields, part{
			entry: entry, element: fieldpath.FieldNameElement(entry.JsonName), plan: p.plan(zero.Type(), ref),
			index: index, omitted: entry.CanOmit(zero),
		})
	}
}

// direct are the indices of a struct's own fields, by their names in JSON.
func direct(t reflect.Type) map[string]int {
	out := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out[name] = i
	}
	return out
}

func (p *planner) list(out *plan, item reflect.Type, l *schema.List) {
	out.elem = p.plan(item, l.ElementType)
	if len(l.Keys) == 0 {
		if out.elem.form == leaf && out.elem.plain && item.Kind() != reflect.Pointer {
			out.form = set
		}
		return
	}
	if out.elem.form != structure || item.Kind() != reflect.Struct {
		return
	}
	atom, _ := p.schema.Resolve(l.ElementType)
	entries := value.TypeReflectEntryOf(item).Fields()
	for _, name := range l.Keys {
		k := key{name: name, entry: entries[name]}
		if k.entry == nil || !isPlain(valueType(k.entry.GetFrom(reflect.New(item).Elem()).Type())) {
			return
		}
		if f, ok := atom.Map.FindField(name); ok && f.Default != nil {
			k.fallback = value.NewValueInterface(f.Default)
		}
		out.keys = append(out.keys, k)
	}
	slices.SortFunc(out.keys, func(a, b key) int { return cmp.Compare(a.name, b.name) })
	out.form = keyed
}

func valueType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
