package clusterroleaggregation

import (
	"fmt"
	"testing"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func role(name, label string, resources ...string) *rbac.ClusterRole {
	r := &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}}
	for _, resource := range resources {
		r.Rules = append(r.Rules, rbac.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""},
			Resources: []string{resource}})
	}
	return r
}

func TestAggregate(t *testing.T) {
	all := []*rbac.ClusterRole{
		role("z", "to-view", "pods", "services"),
		role("a", "to-view", "pods", "nodes"),
		role("self", "to-view", "secrets"),
		role("other", "to-edit", "configmaps"),
	}
	rule := &rbac.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"to-view": "true"}},
		{MatchLabels: map[string]string{"to-none": "true"}},
		{MatchLabels: map[string]string{"to-edit": "true"}},
	}}
	rules, err := aggregate("self", rule, all)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rules {
		got = append(got, r.Resources...)
	}
	if want := "[pods nodes services configmaps]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if rules, err = aggregate("self", rule, nil); err != nil || rules == nil || len(rules) != 0 {
		t.Errorf("of nothing: %v %v", rules, err)
	}
}
