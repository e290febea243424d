package networking

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOldFaultsOfPolicies: what a policy may have had since before it was checked, it may have on.
func TestOldFaultsOfPolicies(t *testing.T) {
	block := func(cidr string, except ...string) *networkingv1.NetworkPolicy {
		out := &networkingv1.NetworkPolicy{}
		out.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}},
		}}}
		return out
	}
	selecting := func(own, peer string) *networkingv1.NetworkPolicy {
		in := func(value string) metav1.LabelSelector {
			return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{value}},
			}}
		}
		pods := in(peer)
		out := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{PodSelector: in(own)}}
		out.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{
			{To: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &pods}}}}
		return out
	}
	const ownValue, peerValue = "spec.podSelector.matchExpressions[0].values[0]",
		"spec.egress[0].to[0].namespaceSelector.matchExpressions[0].values[0]"
	for _, c := range []struct {
		name     string
		old, new *networkingv1.NetworkPolicy
		want     []string
	}{
		{"a block in its form", block("10.0.0.0/8"), block("010.0.0.0/8"),
			[]string{"spec.ingress[0].from[0].ipBlock.cidr"}},
		{"one in another", block("010.0.0.0/8"), block("010.0.0.0/8"), nil},
		{"one in another with parts", block("010.0.0.0/8"),
			block("010.0.0.0/8", "10.1.0.0/16", "11.0.0.0/16", "10.0.0.0/8"),
			[]string{"spec.ingress[0].from[0].ipBlock.except[1]", "spec.ingress[0].from[0].ipBlock.except[2]"}},
		{"a part in another", block("10.0.0.0/8", "010.1.0.0/16"), block("10.0.0.0/8", "010.1.0.0/16"), nil},
		{"a part in another that is none", block("10.0.0.0/8", "011.1.0.0/16"), block("10.0.0.0/8", "011.1.0.0/16"),
			[]string{"spec.ingress[0].from[0].ipBlock.except[0]"}},
		{"values that labels can have", selecting("b", "c"), selecting("!", "!"), []string{ownValue, peerValue}},
		{"a value that none can have", selecting("!", "c"), selecting("!", "!"), nil},
		{"one that none of a peer can have", selecting("b", "!"), selecting("b", "!"), []string{peerValue}},
	} {
		var got []string
		for _, err := range ValidatePolicyUpdate(c.new, c.old) {
			got = append(got, err.Field)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("after %s: %v, want %v", c.name, got, c.want)
		}
	}
}
