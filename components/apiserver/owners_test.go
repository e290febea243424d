package apiserver_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
	"quintet.dev/quintet/components/apiserver/options"
)

// TestOwnersElsewhere: owners may be of kinds that extension servers have, of whose resources admission asks.
func TestOwnersElsewhere(t *testing.T) {
	a := startAggregated(t, func(c *options.Config) {
		c.EnableAdmission = []string{"OwnerReferencesPermissionEnforcement"}
	})
	a.register(t)
	c, alice := a.client(t), a.clientOf(t, a.as("alice"))
	allow := func(name string, rule rbacv1.PolicyRule) {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
		if _, err := c.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "alice"}},
		}
		if _, err := c.RbacV1().RoleBindings("default").Create(t.Context(), binding,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create := func() error {
		_, err := alice.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				GenerateName: "m-", OwnerReferences: []metav1.OwnerReference{
					{APIVersion: aggregationtest.GroupVersion.String(), Kind: "Thing", Name: "t", UID: "1",
						BlockOwnerDeletion: new(true)},
				},
			}}, metav1.CreateOptions{})
		return err
	}
	allow("maker", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"},
		Verbs: []string{"create"}})
	eventually(t, "the owner is found", func() bool {
		err := create()
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "a resource you can't set finalizers on")
	})
	allow("finalizer", rbacv1.PolicyRule{
		APIGroups: []string{aggregationtest.GroupVersion.Group}, Resources: []string{"things/finalizers"},
		Verbs: []string{"update"},
	})
	eventually(t, "the owner may be blocked", func() bool { return create() == nil })
}
