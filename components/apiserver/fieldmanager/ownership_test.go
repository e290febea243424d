package fieldmanager

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// managerOf is the manager of config maps, "" for the whole, or of what stands behind another path.
func managerOf(t *testing.T, path string) *Manager {
	t.Helper()
	types, targets := allTargets(t)
	target, ok := targets[path]
	if !ok {
		t.Fatalf("no target is at %s", path)
	}
	return New(types, target)
}

const configMapsPath = "/v1, Resource=configmaps"

// wantedMap is what is applied of a config map: pairs of keys and values.
func wantedMap(pairs ...string) *unstructured.Unstructured {
	data := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		data[pair[0]] = pair[1]
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "m"}, "data": data}}
}

// owners are the managers of an object's data, by key.
func owners(obj api.Object, keys ...string) string {
	var out []string
	for _, key := range keys {
		var who []string
		for _, e := range obj.GetManagedFields() {
			if strings.Contains(e.FieldsV1.GetRawString(), `"f:`+key+`":{}`) {
				who = append(who, e.Manager)
			}
		}
		slices.Sort(who)
		out = append(out, key+":"+strings.Join(who, "+"))
	}
	return strings.Join(out, " ")
}

// TestOwnership: who owns what after applies and updates of several managers, and who is in whose way.
func TestOwnership(t *testing.T) {
	m := managerOf(t, configMapsPath)
	type step struct {
		manager string
		force   bool
		apply   []string // nil for an update
		update  []string
		fails   string
		data    string
		owners  string
	}
	for name, steps := range map[string][]step{
		"an apply owns what it says, and loses what it no longer says": {
			{manager: "a", apply: []string{"k", "1", "l", "1"}, data: "map[k:1 l:1]", owners: "k:a l:a"},
			{manager: "a", apply: []string{"k", "2"}, data: "map[k:2]", owners: "k:a l:"},
		},
		"the same value is shared, and stays when one gives it up": {
			{manager: "a", apply: []string{"k", "1"}, data: "map[k:1]", owners: "k:a l:"},
			{manager: "b", apply: []string{"k", "1", "l", "1"}, data: "map[k:1 l:1]", owners: "k:a+b l:b"},
			{manager: "a", apply: []string{}, data: "map[k:1 l:1]", owners: "k:b l:b"},
		},
		"another value is a conflict, and force takes it over": {
			{manager: "a", apply: []string{"k", "1", "l", "1"}, data: "map[k:1 l:1]", owners: "k:a l:a"},
			{manager: "b", apply: []string{"k", "2"},
				fails: `Apply failed with 1 conflict: conflict with "a": .data.k`},
			{manager: "b", apply: []string{"k", "2", "l", "2"},
				fails: "Apply failed with 2 conflicts: conflicts with \"a\":\n" +
					"- .data.k\n- .data.l"},
			{manager: "b", force: true, apply: []string{"k", "2"}, data: "map[k:2 l:1]", owners: "k:b l:a"},
			{manager: "a", apply: []string{"l", "1"}, data: "map[k:2 l:1]", owners: "k:b l:a"},
		},
		"an update takes what it changes, and takes it from all": {
			{manager: "a", apply: []string{"k", "1", "l", "1"}, data: "map[k:1 l:1]", owners: "k:a l:a"},
			{manager: "u", update: []string{"k", "2", "l", "1"}, data: "map[k:2 l:1]", owners: "k:u l:a"},
			{manager: "a", apply: []string{"k", "2", "l", "1"}, data: "map[k:2 l:1]", owners: "k:a+u l:a"},
		},
		"what an update takes away has no manager": {
			{manager: "a", apply: []string{"k", "1", "l", "1"}, data: "map[k:1 l:1]", owners: "k:a l:a"},
			{manager: "u", update: []string{"l", "1"}, data: "map[l:1]", owners: "k: l:a"},
		},
	} {
		live := m.Nothing()
		live.GetObjectKind().SetGroupVersionKind(m.target.Body)
		for i, s := range steps {
			var next api.Object
			var err error
			if s.update != nil {
				obj := copyOf(live).(*corev1.ConfigMap)
				obj.Data = map[string]string{}
				for pair := range slices.Chunk(s.update, 2) {
					obj.Data[pair[0]] = pair[1]
				}
				m.Update(live, obj, s.manager)
				next = obj
			} else {
				next, err = m.Apply(live, wantedMap(s.apply...), s.manager, s.force)
			}
			if s.fails != "" {
				if err == nil || err.Error() != s.fails || !apierrors.IsConflict(err) {
					t.Errorf("%s, %d: %v", name, i, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s, %d: %v", name, i, err)
			}
			if got := fmt.Sprint(next.(*corev1.ConfigMap).Data); got != s.data {
				t.Errorf("%s, %d: %s, want %s", name, i, got, s.data)
			}
			if got := owners(next, "k", "l"); got != s.owners {
				t.Errorf("%s, %d: owned %s, want %s", name, i, got, s.owners)
			}
			next.SetUID("u")
			live = next
		}
	}
}

// TestConflictCauses: each field in conflict is a cause, with its manager.
func TestConflictCauses(t *testing.T) {
	m := managerOf(t, configMapsPath)
	live := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"}, Data: map[string]string{"k": "1"}}
	live.ManagedFields = []metav1.ManagedFieldsEntry{owner("u", `{"f:data":{"f:k":{}}}`)}
	_, err := m.Apply(live, wantedMap("k", "2"), "a", false)
	status, ok := err.(apierrors.APIStatus)
	if !ok || len(status.Status().Details.Causes) != 1 {
		t.Fatalf("got %v", err)
	}
	want := metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: ".data.k",
		Message: `conflict with "u" using v1`}
	if c := status.Status().Details.Causes[0]; c != want || status.Status().Code != 409 {
		t.Errorf("got %+v", c)
	}
}

// TestResets: an endpoint gives no ownership of what it doesn't write.
func TestResets(t *testing.T) {
	const path = "apps/v1, Resource=deployments"
	for at, want := range map[string]string{path: "f:spec", path + "/status": "f:status"} {
		m := managerOf(t, at)
		old := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "u"}}
		old.ManagedFields = []metav1.ManagedFieldsEntry{owner("other", `{"f:metadata":{"f:annotations":{}}}`)}
		obj := old.DeepCopy()
		obj.Spec.Paused, obj.Status.Replicas = true, 3
		m.Update(old, obj, "u")
		for _, e := range obj.ManagedFields {
			fields := e.FieldsV1.GetRawString()
			if e.Manager == "u" && (!strings.Contains(fields, want) ||
				strings.Contains(fields, "f:spec") && strings.Contains(fields, "f:status")) {
				t.Errorf("%s: owns %s", at, fields)
			}
			if sub := e.Subresource; e.Manager == "u" && (sub == "status") != (want == "f:status") {
				t.Errorf("%s: of the subresource %q", at, sub)
			}
		}
	}
}

// TestUpdatersAreBounded: of many updaters the oldest are made one, and nothing that they own is lost.
func TestUpdatersAreBounded(t *testing.T) {
	m := managerOf(t, configMapsPath)
	live := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	var keys []string
	for i := range 15 {
		next := live.DeepCopy()
		key := fmt.Sprintf("k%02d", i)
		if next.Data == nil {
			next.Data = map[string]string{}
		}
		next.Data[key] = "1"
		keys = append(keys, key)
		m.Update(live, next, "m"+key)
		next.UID = "u"
		live = next
	}
	if n := len(live.ManagedFields); n != maxUpdaters {
		t.Errorf("%d entries", n)
	}
	for _, key := range keys {
		if got := owners(live, key); got == key+":" {
			t.Errorf("%s has no manager", key)
		}
	}
	if !strings.Contains(owners(live, "k00"), "ancient-changes") || owners(live, "k14") != "k14:mk14" {
		t.Errorf("owned %s", owners(live, keys...))
	}
}
