package kinds

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestEmptyListsAreDropped(t *testing.T) {
	role := &rbacv1.Role{Rules: []rbacv1.PolicyRule{}}
	roles().Strategy.Canonicalize(role)
	if role.Rules != nil {
		t.Error("rules are still there")
	}
	role.Rules = []rbacv1.PolicyRule{{Verbs: []string{}, APIGroups: []string{}}}
	roles().Strategy.Canonicalize(role)
	if r := role.Rules; len(r) != 1 || r[0].Verbs != nil || r[0].APIGroups == nil {
		t.Errorf("got %#v", r) // JSON leaves out empty apiGroups anyway
	}
	ingress := &networkingv1.Ingress{Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{
		{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{}}}},
	}}}
	ingresses().Strategy.Canonicalize(ingress)
	if ingress.Spec.Rules[0].HTTP.Paths != nil {
		t.Error("paths are still there")
	}
}
