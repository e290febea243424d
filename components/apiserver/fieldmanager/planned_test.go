package fieldmanager

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// configMaps describes a part of what they are.
const configMaps = `types:
- name: configMap
  map:
    fields:
    - name: metadata
      type:
        map:
          fields:
          - name: name
            type: {scalar: string}
          - name: finalizers
            type: {list: {elementType: {scalar: string}, elementRelationship: associative}}
          elementType: {scalar: untyped}
    - name: data
      type: {map: {elementType: {scalar: string}}}
`

func testPlanned(t *testing.T, subresource string) *planned {
	t.Helper()
	parser, err := typed.NewParser(configMaps)
	if err != nil {
		t.Fatal(err)
	}
	goType, of := reflect.TypeFor[corev1.ConfigMap](), parser.Type("configMap")
	plan := newPlanner(&parser.Schema).of(goType, of.TypeRef)
	return newPlannedOf(plan, goType, of, "v1", subresource, nil)
}

func configMap(data map[string]string, entries ...metav1.ManagedFieldsEntry) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u", ManagedFields: entries}, Data: data}
}

func owner(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields), Time: &metav1.Time{Time: time.Unix(1, 0)}}
}

func TestUpdate(t *testing.T) {
	some := func(n int) (out []metav1.ManagedFieldsEntry) {
		for i := range n {
			out = append(out, owner(fmt.Sprint("m", i), fmt.Sprintf(`{"f:data":{"f:%d":{}}}`, i)))
		}
		return out
	}
	applied, otherVersion := owner("a", `{"f:data":{"f:k":{}}}`), owner("a", `{"f:data":{"f:k":{}}}`)
	noFields := owner("a", "")
	applied.Operation, otherVersion.APIVersion, noFields.FieldsV1 = "Apply", "v2", nil
	for name, c := range map[string]struct {
		sub        string
		live, next *corev1.ConfigMap
		want       []string
		untold     bool
	}{
		"a change of another's field": {
			live: configMap(map[string]string{"k": "1"}, owner("a", `{"f:data":{"f:k":{}}}`)),
			next: configMap(map[string]string{"k": "2"}),
			want: []string{`b Update {"f:data":{"f:k":{}}}`},
		},
		"a change of an applied field": {
			live: configMap(map[string]string{"k": "1", "l": "1"}, applied, owner("b", `{"f:data":{".":{},"f:l":{}}}`)),
			next: configMap(map[string]string{"k": "2", "l": "1"}),
			want: []string{`b Update {"f:data":{".":{},"f:k":{},"f:l":{}}}`},
		},
		"a removal": {
			live: configMap(map[string]string{"k": "1", "l": "1"}, owner("a", `{"f:data":{".":{},"f:k":{},"f:l":{}}}`)),
			next: configMap(map[string]string{"k": "1"}),
			want: []string{`a Update {"f:data":{".":{},"f:k":{}}}`},
		},
		"another order than is written": {
			live: configMap(nil, owner("a", `{"f:data": {"f:l":{}, "f:k":{}}}`)),
			next: configMap(nil),
			want: []string{`a Update {"f:data":{"f:k":{},"f:l":{}}}`},
		},
		"fields that were never tracked": {live: configMap(nil), next: configMap(map[string]string{"k": "1"})},
		"given entries": {
			live: configMap(nil, owner("a", `{"f:data":{"f:k":{}}}`)),
			next: configMap(nil, owner("c", `{"f:data":{"f:l":{}}}`)),
			want: []string{`c Update {"f:data":{"f:l":{}}}`},
		},
		"given entries at a subresource": {
			sub:  "status",
			live: configMap(nil, owner("a", `{"f:data":{"f:k":{}}}`)),
			next: configMap(nil, owner("c", `{"f:data":{"f:l":{}}}`)),
			want: []string{`a Update {"f:data":{"f:k":{}}}`},
		},
		"reset": {
			live: configMap(nil, owner("a", `{"f:data":{"f:k":{}}}`)),
			next: configMap(nil, metav1.ManagedFieldsEntry{}),
		},
		"another version":    {live: configMap(nil, otherVersion), next: configMap(nil), untold: true},
		"an entry of no set": {live: configMap(nil, noFields), next: configMap(nil), untold: true},
		"a broken set":       {live: configMap(nil, owner("a", `{"x":1}`)), next: configMap(nil), untold: true},
		"the same twice": {live: configMap(nil, owner("a", `{}`), owner("a", `{}`)), next: configMap(nil),
			untold: true},
		"eleven updaters": {live: configMap(nil, some(10)...), next: configMap(map[string]string{"k": "1"}),
			untold: true},
		"no text": {
			live: configMap(nil, owner("\xff", `{"f:data":{"f:k":{}}}`)), next: configMap(nil), untold: true,
		},
	} {
		entries, ok := testPlanned(t, c.sub).update(c.live, c.next, "b", time.Unix(2, 0))
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprintf("%s %s %s", e.Manager, e.Operation, e.FieldsV1.GetRawString()))
		}
		if ok == c.untold || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: told: %t, got %q, want %q", name, ok, got, c.want)
		}
	}
}

func TestUpdateOfDuplicates(t *testing.T) {
	live, next := configMap(nil, owner("a", `{"f:data":{"f:k":{}}}`)), configMap(nil)
	next.Finalizers = []string{"x", "x"}
	if _, ok := testPlanned(t, "").update(live, next, "b", time.Unix(2, 0)); ok {
		t.Error("duplicates are tracked")
	}
	next.Finalizers = []string{"x"}
	if got, ok := testPlanned(t, "").update(live, next, "b", time.Unix(2, 0)); !ok || len(got) != 2 {
		t.Error("the list isn't tracked", got)
	}
}

func TestSetsAreBounded(t *testing.T) {
	s := &testPlanned(t, "").sets
	for i := range 3 * maxSets {
		if f := s.decoded(metav1.NewFieldsV1(fmt.Sprintf(`{"f:data":{"f:%d":{}}}`, i))); f == nil {
			t.Fatal("a set can't be read")
		}
	}
	if len(s.known) > maxSets {
		t.Errorf("%d sets are remembered", len(s.known))
	}
}

// TestFirst: the field set of a new object holds for others of the same shape.
func TestFirst(t *testing.T) {
	b := testPlanned(t, "")
	fieldsOf := func(data map[string]string, finalizers ...string) *metav1.FieldsV1 {
		t.Helper()
		next := configMap(data)
		next.UID, next.Finalizers = "", finalizers
		entries, ok := b.update(nil, next, "m", time.Unix(5, 0))
		now := metav1.Time{Time: time.Unix(5, 0)}
		if !ok || len(entries) != 1 || entries[0].Manager != "m" || !entries[0].Time.Equal(&now) {
			t.Fatalf("%v %v", ok, entries)
		}
		return entries[0].FieldsV1
	}
	for _, c := range []struct {
		data       map[string]string
		finalizers []string
		want       string
	}{
		{map[string]string{"k": "1", "l": "2"}, nil, `{"f:data":{".":{},"f:k":{},"f:l":{}}}`},
		{map[string]string{}, []string{"f", "kl"},
			`{"f:metadata":{"f:finalizers":{".":{},"v:\"f\"":{},"v:\"kl\"":{}}}}`},
		{nil, []string{"fk", "l"}, `{"f:metadata":{"f:finalizers":{".":{},"v:\"fk\"":{},"v:\"l\"":{}}}}`},
	} {
		first, again := fieldsOf(c.data, c.finalizers...), fieldsOf(c.data, c.finalizers...)
		if first != again || first.GetRawString() != c.want {
			t.Errorf("%v %v: %s, then %s", c.data, c.finalizers, first, again)
		}
	}
	k := fieldsOf(map[string]string{"k": "1"})
	if k != fieldsOf(map[string]string{"k": "2"}) || k == fieldsOf(map[string]string{"l": "1"}) {
		t.Error("values tell shapes apart, or keys don't")
	}
	if _, ok := b.update(nil, &corev1.ConfigMap{Data: map[string]string{"k": "1"}}, "\xff", time.Now()); ok {
		t.Error("a manager is tracked whose name can't be written")
	}
}
