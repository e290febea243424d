package fieldmanager

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Kinds that are served under several groups (events) are tracked in one at a time: upstream forgets with a write under
// one group what was tracked in another.

// inSeveralGroups reports whether the target's kind is served under several groups.
func (t *Target) inSeveralGroups() bool {
	return slices.ContainsFunc(t.Kind.Versions, func(v api.Version) bool { return v.Group != t.Kind.Hub.Group })
}

// foreign reports whether an entry is of another group than the target's.
func (t *Target) foreign(e metav1.ManagedFieldsEntry) bool {
	gv, err := schema.ParseGroupVersion(e.APIVersion)
	return err == nil && gv.Group != t.Version.Group
}

// dropForeignEntries takes the entries of other groups out of an object that has been written.
func (m *Manager) dropForeignEntries(obj api.Object) {
	if !m.severalGroups {
		return
	}
	if entries := obj.GetManagedFields(); slices.ContainsFunc(entries, m.target.foreign) {
		obj.SetManagedFields(slices.DeleteFunc(slices.Clone(entries), m.target.foreign))
	}
}

// emptyForeignEntries makes the managers of other groups own nothing of an object that something is to be applied to.
// Their entries are dropped only afterwards: what has been managed is not taken for fields that were never applied, and
// a manager that applies the same again has done so before.
func (m *Manager) emptyForeignEntries(live api.Object) {
	entries := live.GetManagedFields()
	if !m.severalGroups || !slices.ContainsFunc(entries, m.target.foreign) {
		return
	}
	out := slices.DeleteFunc(slices.Clone(entries), m.target.foreign)
	for _, e := range entries {
		same := func(o metav1.ManagedFieldsEntry) bool {
			return o.Manager == e.Manager && o.Operation == e.Operation && o.Subresource == e.Subresource
		}
		if m.target.foreign(e) && !slices.ContainsFunc(out, same) {
			e.APIVersion, e.FieldsV1 = m.target.Body.GroupVersion().String(), metav1.NewFieldsV1("{}")
			out = append(out, e)
		}
	}
	live.SetManagedFields(out)
}
