package addons

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// The API server's client for kubelets has the role for that, and is in no privileged group.
func TestKubeletClientBinding(t *testing.T) {
	client := fake.NewClientset()
	if err := Apply(t.Context(), client, KubeletClientBinding("apiserver-at-kubelets")); err != nil {
		t.Fatal(err)
	}
	all, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 {
		t.Fatal(all, err)
	}
	binding := all.Items[0]
	if binding.RoleRef.Name != "system:kubelet-api-admin" || len(binding.Subjects) != 1 ||
		binding.Subjects[0].Kind != rbacv1.UserKind || binding.Subjects[0].Name != "apiserver-at-kubelets" {
		t.Errorf("%+v", binding)
	}
}
