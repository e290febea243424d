package bootstrap

import (
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// TestInheritance: what was changed in a role or a binding before its rules or subjects got a place of their own counts
// there.
func TestInheritance(t *testing.T) {
	store, clk := &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	b := newBootstrap(store, "host", "192.0.2.1", clk)
	changed := map[string]string{rbacv1.AutoUpdateAnnotationKey: "false", "changed": "yes"}
	own := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}}
	put := func(name string, aggregated bool) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: changed},
			Rules: []rbacv1.PolicyRule{own}}
		if aggregated {
			role.AggregationRule = &rbacv1.AggregationRule{}
		}
		store.Put(clusterRoles, role)
	}
	put("admin", false)
	put("edit", true)
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}}
	store.Put(clusterRoleBindings,
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: discovery, Annotations: changed},
			Subjects: subjects,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: discovery}})
	for range 2 { // what a server did before isn't done again
		if err := b.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{"admin": true, "edit": false, "view": false} {
			role, err := objects.As[*rbacv1.ClusterRole](store.Get(t.Context(), clusterRoles, "", splitRoles[name]))
			if err != nil {
				t.Fatal(err)
			}
			if got := role.Annotations["changed"] == "yes" &&
				slices.ContainsFunc(role.Rules,
					func(r rbacv1.PolicyRule) bool { return r.Resources[0] == "widgets" }); got != want {
				t.Errorf("%s: %v", role.Name, role)
			}
		}
		binding, err := objects.As[*rbacv1.ClusterRoleBinding](
			store.Get(t.Context(), clusterRoleBindings, "", publicInfo))
		if err != nil || !slices.Equal(binding.Subjects, subjects) || binding.RoleRef.Name != publicInfo ||
			binding.Annotations["changed"] != "yes" {
			t.Errorf("%v, %v", binding, err)
		}
		if _, err := store.Update(t.Context(), clusterRoleBindings, "", discovery,
			func(o api.Object) (api.Object, error) {
				o.(*rbacv1.ClusterRoleBinding).Subjects = nil
				return o, nil
			}); err != nil {
			t.Fatal(err)
		}
	}
}
