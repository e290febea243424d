package networkpolicy

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// TestRulesAreWhatTheySeem: a rule without peers allows all of them, no rule allows none.
func TestRulesAreWhatTheySeem(t *testing.T) {
	if rules := from().Spec.Ingress; len(rules) != 1 || len(rules[0].From) != 0 || len(rules[0].Ports) != 0 {
		t.Errorf("from() is not a rule for all: %+v", rules)
	}
	if rules := policy("deny", "", ingress).Spec.Ingress; len(rules) != 0 {
		t.Errorf("policy() has rules: %+v", rules)
	}
	if selector := policy("deny", "", ingress).Spec.PodSelector; len(selector.MatchLabels) != 0 {
		t.Errorf("policy() selects %+v", selector)
	}
	together := namespaces("team", "a")
	together.PodSelector = labelled("app", "b")
	apart := []networkingv1.NetworkPolicyPeer{namespaces("team", "a"), pods("b")}
	if rule := from(together).Spec.Ingress[0]; len(rule.From) != 1 || equality.Semantic.DeepEqual(rule.From, apart) {
		t.Errorf("one peer with two selectors is %+v", rule.From)
	}
}
