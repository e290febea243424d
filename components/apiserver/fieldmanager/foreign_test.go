package fieldmanager

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestForeignEntries: what is tracked of an event in one group is forgotten with a write under the other.
func TestForeignEntries(t *testing.T) {
	types, targets := allTargets(t)
	entry := func(version, fields string) metav1.ManagedFieldsEntry {
		e := owner("a", fields)
		e.APIVersion = version
		return e
	}
	live := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", UID: "u"}, Reason: "r"}
	live.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("v1", `{"f:reason":{}}`), entry("events.k8s.io/v1", `{"f:action":{}}`),
	}
	for name, foreign := range map[string]string{
		"/v1, Resource=events": "events.k8s.io/v1", "events.k8s.io/v1, Resource=events": "v1",
	} {
		m := New(types, targets[name])
		updated := live.DeepCopy()
		updated.Type = "Normal"
		m.Update(live, updated, "b")
		config := &unstructured.Unstructured{
			Object: map[string]any{"metadata": map[string]any{"name": "e"}, "type": "Normal"}}
		config.SetGroupVersionKind(targets[name].Body)
		applied, err := m.Apply(live, config, "b", true)
		if err != nil {
			t.Fatal(err)
		}
		for verb, entries := range map[string][]metav1.ManagedFieldsEntry{
			"update": updated.ManagedFields, "apply": applied.GetManagedFields(),
		} {
			if len(entries) != 2 || entries[0].APIVersion == foreign || entries[1].APIVersion == foreign {
				t.Errorf("%s of %s: %v", verb, name, shown(entries))
			}
		}
		if len(live.ManagedFields) != 2 {
			t.Error("the old object is changed")
		}
	}
}
