package fieldmanager

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// unknownManager is the name of a manager that gives none.
const unknownManager = "unknown"

// unowned are the fields that have no manager.
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

// maxUpdaters is how many entries of updates an object keeps; managedfields merges those beyond.
const maxUpdaters = 10

// entry is one of the managed fields. set is nil when nothing is left of it.
type entry struct {
	metav1.ManagedFieldsEntry
	set *fieldpath.Set
}

// entries are those that a write begins with: the object's own, or if it has none, those of the object that it
// replaces. Setting them to an empty list resets them; through subresources they can't be set.
func (p *planned) entries(live, next metav1.Object) ([]entry, bool) {
	given := next.GetManagedFields()
	switch {
	case p.subresource != "":
		return p.decode(live.GetManagedFields())
	case given != nil && len(given) == 0, len(given) == 1 && given[0] == metav1.ManagedFieldsEntry{}:
		return nil, true
	case len(given) == 0:
		return p.decode(live.GetManagedFields())
	}
	return p.decode(given)
}

// decode reads entries. ok is false for those of which structured merge has more to say.
func (p *planned) decode(given []metav1.ManagedFieldsEntry) (_ []entry, ok bool) {
	out := make([]entry, len(given), len(given)+1)
	for i := range given {
		e := &given[i]
		known := e.Operation == metav1.ManagedFieldsOperationApply || e.Operation == metav1.ManagedFieldsOperationUpdate
		if !known || e.APIVersion != p.version || e.FieldsType != "FieldsV1" ||
			!utf8.ValidString(e.Manager) || !utf8.ValidString(e.Subresource) {
			return nil, false
		}
		for j := range out[:i] {
			if out[j].of(e.Manager, e.Operation, e.Subresource) {
				return nil, false
			}
		}
		fields := p.sets.decoded(e.FieldsV1)
		if fields == nil {
			return nil, false
		}
		out[i] = entry{*e, fields.set}
		out[i].FieldsV1 = fields.encoded
	}
	return out, true
}

func (e *entry) of(manager string, operation metav1.ManagedFieldsOperationType, subresource string) bool {
	return e.Manager == manager && e.Operation == operation && e.Subresource == subresource
}

// changed takes from all managers the fields that have changed or are gone, and gives the manager those that it
// changed.
func (p *planned) changed(entries []entry, c *changes, manager string, now time.Time) ([]entry, bool) {
	touched := c.added.Union(c.modified)
	mine := touched.Difference(unowned)
	manager = cmp.Or(manager, unknownManager)
	own := -1
	for i := range entries {
		e := &entries[i]
		if e.of(manager, metav1.ManagedFieldsOperationUpdate, p.subresource) {
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
		e, ok := p.newEntry(manager, now)
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

// newEntry is a manager's first entry, but for the fields. ok is false if structured merge would write the name of the
// manager in another way.
func (p *planned) newEntry(manager string, now time.Time) (_ metav1.ManagedFieldsEntry, ok bool) {
	return metav1.ManagedFieldsEntry{
		Manager: cmp.Or(manager, unknownManager), Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: p.version, Subresource: p.subresource,
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

// encodedEntries are the entries as they are stored.
func encodedEntries(entries []entry) ([]metav1.ManagedFieldsEntry, bool) {
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
		return cmp.Or(
			cmp.Compare(a.Operation, b.Operation), cmp.Compare(seconds(a.Time), seconds(b.Time)),
			cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.APIVersion, b.APIVersion),
			cmp.Compare(a.Subresource, b.Subresource))
	})
	return out, true
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}
