// Package fieldmanager keeps the books of who manages which fields, for the writes that are most frequent by far: those that are no
// apply, of objects of one Go type, in the version that is stored. What it books is what structured merge would
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management), but by comparing Go values along a
// plan that is made once for each type. Of what it doesn't know it says so, and leaves it to structured merge.
package fieldmanager

import (
	"cmp"
	"reflect"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Books are those of one kind, as one of its doors has them. They are safe for concurrent use.
type Books struct {
	goType      reflect.Type
	empty       metav1.Object
	plan        *plan
	version     string
	subresource string
	filter      fieldpath.Filter
	verbatim    func() bool // something in the objects is
	sets        sets
	drawn       drawn // of new objects
	applied     drawn // of what is applied
}

// New opens the books of objects of the Go type, a struct, that the planner's schema describes as of. version is the API version
// of all writes; filter, which may be nil, takes out fields that writes don't set.
func New(p *Planner, goType reflect.Type, of typed.ParseableType, version, subresource string, filter fieldpath.Filter) *Books {
	root := p.of(goType, of.TypeRef).without("apiVersion", "kind") // both objects are of one kind
	for i := range root.fields {
		if f := &root.fields[i]; f.entry.JsonName == "metadata" {
			f.plan = f.plan.without("managedFields") // see Update
		}
	}
	//lint:ignore SA1019 it stands for the type; nothing is there to be validated
	none := typed.AsTypedUnvalidated(value.NewValueInterface(nil), of.Schema, of.TypeRef)
	return &Books{goType: goType, empty: reflect.New(goType).Interface().(metav1.Object), plan: root, version: version, subresource: subresource, filter: filter,
		verbatim: sync.OnceValue(func() bool { return IsVerbatim(goType) }),
		sets:     sets{of: none},
	}
}

// Verbatim tells whether something in the objects is kept as a client has written it.
func (b *Books) Verbatim() bool { return b.verbatim() }

// without is the plan of a structure of which some fields are not compared.
func (p *plan) without(names ...string) *plan {
	out := *p
	out.fields = slices.DeleteFunc(slices.Clone(p.fields), func(f part) bool { return slices.Contains(names, f.entry.JsonName) })
	return &out
}

// unowned are the fields that nobody manages.
var unowned = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"),
	fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata"),
	fieldpath.MakePathOrDie("metadata", "name"),
	fieldpath.MakePathOrDie("metadata", "namespace"),
	fieldpath.MakePathOrDie("metadata", "creationTimestamp"),
	fieldpath.MakePathOrDie("metadata", "selfLink"),
	fieldpath.MakePathOrDie("metadata", "uid"),
	fieldpath.MakePathOrDie("metadata", "clusterName"),
	fieldpath.MakePathOrDie("metadata", "generation"),
	fieldpath.MakePathOrDie("metadata", "managedFields"),
	fieldpath.MakePathOrDie("metadata", "resourceVersion"),
)

var ownBooks = fieldpath.MakePathOrDie("metadata", "managedFields")

// maxUpdaters is how many entries of updates an object keeps; structured merge's manager puts together what is more.
const maxUpdaters = 10

// entry is one of the managed fields. set is nil when nothing is left of it.
type entry struct {
	metav1.ManagedFieldsEntry
	set *fieldpath.Set
}

// Update returns the managed fields of next, which manager makes of live; live is nil for a new one. Neither is
// changed, and the result shares no memory with them that anybody may change. ok is false if it takes structured merge to tell.
func (b *Books) Update(live, next metav1.Object, manager string, now time.Time) (_ []metav1.ManagedFieldsEntry, ok bool) {
	if live == nil {
		live = b.empty
	}
	from, to := reflect.ValueOf(live).Elem(), reflect.ValueOf(next).Elem()
	if from.Type() != b.goType || to.Type() != b.goType {
		return nil, false
	}
	entries, ok := b.entries(live, next)
	if !ok {
		return nil, false
	}
	switch {
	case len(entries) > 0:
	case live.GetUID() != "":
		return nil, true // nobody's fields were ever booked, and so it stays
	case len(live.GetManagedFields()) == 0:
		return b.first(from, to, manager, now)
	}
	c, ok := compare(b.plan, from, to)
	if !ok {
		return nil, false
	}
	if len(live.GetManagedFields()) > 0 {
		c.removed.Insert(ownBooks) // what is booked is no part of the new object while it is compared
	}
	if entries, ok = b.book(entries, b.filtered(c), manager, now); !ok {
		return nil, false
	}
	return closed(entries)
}

// first does the same for a new object, of which nothing is booked. What is booked of another one with the same outline holds for it.
func (b *Books) first(empty, next reflect.Value, manager string, now time.Time) ([]metav1.ManagedFieldsEntry, bool) {
	o := b.drawn.begin()
	defer b.drawn.end(o)
	text, drawn := o.of(b.plan, empty, next)
	if drawn {
		if fields, ok := b.drawn.fields(text); ok {
			if fields == nil {
				return nil, true
			}
			e, ok := b.entryOf(manager, now)
			e.FieldsV1 = fields
			return []metav1.ManagedFieldsEntry{e}, ok
		}
	}
	c, ok := compare(b.plan, empty, next)
	if !ok {
		return nil, false
	}
	entries, ok := b.book(nil, b.filtered(c), manager, now)
	if !ok {
		return nil, false
	}
	out, ok := closed(entries)
	switch {
	case !drawn || !ok:
	case len(out) == 0:
		b.drawn.remember(text, nil)
	default:
		b.drawn.remember(text, out[0].FieldsV1)
	}
	return out, ok
}

// filtered is c without the fields that writes don't set.
func (b *Books) filtered(c *changes) *changes {
	if b.filter != nil {
		c.added, c.modified, c.removed = b.filter.Filter(c.added), b.filter.Filter(c.modified), b.filter.Filter(c.removed)
	}
	return c
}

// Covers tells whether all fields of an entry are among those given, without those that writes don't set.
func (b *Books) Covers(given *fieldpath.Set, entry *metav1.FieldsV1) bool {
	known := b.sets.decoded(entry)
	if known == nil {
		return false
	}
	if b.filter != nil {
		given = b.filter.Filter(given)
	}
	return known.set.Difference(given).Empty()
}

// entries are those that a write begins with: the object's own, or if it has none, those of the object that it replaces. To set
// it to nothing at all resets it; through subresources it can't be set.
func (b *Books) entries(live, next metav1.Object) ([]entry, bool) {
	given := next.GetManagedFields()
	switch {
	case b.subresource != "":
		return b.open(live.GetManagedFields())
	case given != nil && len(given) == 0, len(given) == 1 && given[0] == metav1.ManagedFieldsEntry{}:
		return nil, true
	case len(given) == 0:
		return b.open(live.GetManagedFields())
	}
	return b.open(given)
}

func (b *Books) open(given []metav1.ManagedFieldsEntry) ([]entry, bool) {
	out := make([]entry, len(given), len(given)+1)
	for i := range given {
		e := &given[i]
		if e.Operation != metav1.ManagedFieldsOperationApply && e.Operation != metav1.ManagedFieldsOperationUpdate ||
			e.APIVersion != b.version || e.FieldsType != "FieldsV1" || !utf8.ValidString(e.Manager) || !utf8.ValidString(e.Subresource) {
			return nil, false
		}
		for j := range out[:i] {
			if out[j].of(e.Manager, e.Operation, e.Subresource) {
				return nil, false
			}
		}
		known := b.sets.decoded(e.FieldsV1)
		if known == nil {
			return nil, false
		}
		out[i] = entry{*e, known.set}
		out[i].FieldsV1 = known.encoded
	}
	return out, true
}

func (e *entry) of(manager string, operation metav1.ManagedFieldsOperationType, subresource string) bool {
	return e.Manager == manager && e.Operation == operation && e.Subresource == subresource
}

// book takes from all what has changed or is gone, and gives the manager what it changed.
func (b *Books) book(entries []entry, c *changes, manager string, now time.Time) ([]entry, bool) {
	touched := c.added.Union(c.modified)
	mine := touched.Difference(unowned)
	manager = nameOf(manager)
	own := -1
	for i := range entries {
		e := &entries[i]
		if e.of(manager, metav1.ManagedFieldsOperationUpdate, b.subresource) {
			own = i
		}
		before := e.set
		e.set = less(less(e.set, touched), c.removed)
		if own == i && !mine.Empty() {
			e.set = mine.Union(e.set)
			e.Time = &metav1.Time{Time: now.UTC()}
		}
		if e.set != before && !e.set.Equals(before) {
			e.FieldsV1 = nil // to be encoded
		}
	}
	if own < 0 && !mine.Empty() {
		e, ok := b.entryOf(manager, now)
		if !ok {
			return nil, false
		}
		entries = append(entries, entry{e, mine})
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.set.Empty() })
	updaters := 0
	for i := range entries {
		if entries[i].Operation == metav1.ManagedFieldsOperationUpdate {
			updaters++
		}
	}
	return entries, updaters <= maxUpdaters
}

func nameOf(manager string) string { return cmp.Or(manager, "unknown") }

// entryOf is a manager's first entry, but for the fields. ok is false if structured merge would spell his name in another way.
func (b *Books) entryOf(manager string, now time.Time) (_ metav1.ManagedFieldsEntry, ok bool) {
	return metav1.ManagedFieldsEntry{
		Manager: nameOf(manager), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: b.version, Subresource: b.subresource,
		FieldsType: "FieldsV1", Time: &metav1.Time{Time: now.UTC()},
	}, utf8.ValidString(manager)
}

// less is s without what is in other; s itself if that is nothing.
func less(s, other *fieldpath.Set) *fieldpath.Set {
	if other.Empty() || s.Intersection(other).Empty() {
		return s
	}
	return s.Difference(other)
}

// closed are the entries as they are stored.
func closed(entries []entry) ([]metav1.ManagedFieldsEntry, bool) {
	if len(entries) == 0 {
		return nil, true
	}
	out := make([]metav1.ManagedFieldsEntry, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 == nil {
			raw, err := e.set.ToJSON()
			if err != nil {
				return nil, false
			}
			e.FieldsV1 = encoded(raw)
		}
		out[i] = e.ManagedFieldsEntry
	}
	slices.SortFunc(out, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(seconds(a.Time), seconds(b.Time)),
			cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
	})
	return out, true
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}
