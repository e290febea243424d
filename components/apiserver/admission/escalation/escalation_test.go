package escalation

import (
	"context"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// modest lets nobody grant secrets.
type modest struct{}

func (modest) CheckRole(_ context.Context, _ user.Info, _ authorizer.AttributesRecord, _ string, rules []rbacv1.PolicyRule, _ bool) error {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			if resource == "secrets" {
				return errors.New("too much")
			}
		}
	}
	return nil
}

func (modest) CheckBinding(context.Context, user.Info, string, string, rbacv1.RoleRef) error {
	return nil
}

// What other admission adds to a role after the first look is seen by the second.
func TestRulesAddedByOthersAreChecked(t *testing.T) {
	p := New(modest{})
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "n"}, Rules: []rbacv1.PolicyRule{{Resources: []string{"pods"}}}}
	a := admission.NewAttributesRecord(role, nil, rbacv1.SchemeGroupVersion.WithKind("Role"), "n", "r",
		rbacv1.SchemeGroupVersion.WithResource("roles"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "u"})
	if err := p.Admit(t.Context(), a, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(t.Context(), a, nil); err != nil {
		t.Fatal(err)
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{Resources: []string{"secrets"}})
	if err := p.Validate(t.Context(), a, nil); err == nil {
		t.Error("a rule that came later was not checked")
	}
}
