package fieldmanager

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReapply: applies that repeat others are told of, and nothing is touched where they aren't.
func TestReapply(t *testing.T) {
	config := func(data map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "m"},
			"data": data}
	}
	applied := owner("a", `{"f:data":{"f:k":{}}}`)
	applied.Operation = metav1.ManagedFieldsOperationApply
	for name, c := range map[string]struct {
		live        map[string]string
		entries     []metav1.ManagedFieldsEntry
		config      map[string]any
		want        map[string]string
		changes, ok bool
	}{
		"another value": {map[string]string{"k": "1", "l": "1"}, nil, map[string]any{"k": "2"},
			map[string]string{"k": "2", "l": "1"}, true, true},
		"the same value": {map[string]string{"k": "1"}, nil, map[string]any{"k": "1"},
			map[string]string{"k": "1"}, false, true},
		"another's value": {map[string]string{"k": "1"},
			[]metav1.ManagedFieldsEntry{owner("b", `{"f:data":{"f:k":{}}}`)}, map[string]any{"k": "2"}, nil, false,
			false},
		"a value beside another": {map[string]string{"k": "1", "l": "1"},
			[]metav1.ManagedFieldsEntry{owner("b", `{"f:data":{"f:l":{}}}`)}, map[string]any{"k": "2"},
			map[string]string{"k": "2", "l": "1"}, true, true},
		"one more": {map[string]string{"k": "1"}, nil, map[string]any{"k": "1", "l": "1"}, nil, false,
			false},
		"one less":         {map[string]string{"k": "1"}, nil, map[string]any{}, nil, false, false},
		"one that is gone": {map[string]string{"l": "1"}, nil, map[string]any{"k": "1"}, nil, false, false},
		"no text":          {map[string]string{"k": "1"}, nil, map[string]any{"k": int64(1)}, nil, false, false},
		"nothing":          {map[string]string{"k": "1"}, nil, map[string]any{"k": nil}, nil, false, false},
	} {
		b := testPlanned(t, "")
		live := configMap(c.live, append(c.entries, applied)...)
		if _, ok := b.reapply(live, config(map[string]any{"k": "1"}), "a", time.Now()); ok {
			t.Errorf("%s: an apply is repeated that was never done", name)
		}
		b.rememberApplied(live, config(map[string]any{"k": "1"}), "a")
		before := live.DeepCopy()
		changes, ok := b.reapply(live, config(c.config), "a", time.Unix(9, 0))
		if changes != c.changes || ok != c.ok {
			t.Errorf("%s: changes %t, ok %t", name, changes, ok)
		}
		if !ok {
			c.want = before.Data
		}
		after := &corev1.ConfigMap{Data: c.want}
		if len(live.Data) != len(after.Data) || live.Data["k"] != after.Data["k"] || live.Data["l"] != after.Data["l"] {
			t.Errorf("%s: %v", name, live.Data)
		}
		for _, e := range live.ManagedFields {
			if mine := e.Operation == metav1.ManagedFieldsOperationApply; mine &&
				e.Time.Equal(&metav1.Time{Time: time.Unix(9, 0)}) != changes {
				t.Errorf("%s: applied at %v", name, e.Time)
			}
		}
	}
}
