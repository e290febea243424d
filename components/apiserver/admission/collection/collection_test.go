package collection

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestOnly(t *testing.T) {
	old := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Finalizers: []string{"f"}, OwnerReferences: []metav1.OwnerReference{{Name: "o"}},
	}}
	changed := func(change func(*rbacv1.ClusterRole)) runtime.Object {
		r := old.DeepCopy()
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		obj, old runtime.Object
		want     bool
	}{
		"no update":  {old, nil, false},
		"a deletion": {nil, old, false},
		"nothing":    {old.DeepCopy(), old, true},
		"let go": {changed(func(r *rbacv1.ClusterRole) { r.Finalizers, r.OwnerReferences = nil, nil }), old,
			true},
		"managed fields": {changed(
			func(r *rbacv1.ClusterRole) { r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}} }), old, true},
		"a label as well": {changed(
			func(r *rbacv1.ClusterRole) { r.Finalizers, r.Labels = nil, map[string]string{"a": "b"} }), old, false},
		"a rule as well": {changed(
			func(r *rbacv1.ClusterRole) { r.Finalizers, r.Rules = nil, []rbacv1.PolicyRule{{Verbs: []string{"*"}}} }),
			old, false},
	} {
		if got := Only(c.obj, c.old); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
