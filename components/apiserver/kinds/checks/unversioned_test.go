package checks

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUnversioned(t *testing.T) {
	yes := true
	for _, tc := range []struct {
		name  string
		value any
		want  string
	}{
		{"nil", (*corev1.SecurityContext)(nil), "null"},
		{"unset fields", corev1.PodResourceClaim{Name: "a"},
			`{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}`},
		{"pointer", &corev1.SELinuxOptions{User: "u"}, `{"User":"u","Role":"","Type":"","Level":""}`},
		{"slices", corev1.Capabilities{Add: []corev1.Capability{"A", "B"}}, `{"Add":["A","B"],"Drop":null}`},
		{"map and quantity", corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
			`{"Limits":{"cpu":"100m"},"Requests":null,"Claims":null}`},
		{"embedded", corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "n"}, Key: "k",
			Optional: &yes},
			`{"Name":"n","Key":"k","Optional":true}`},
		{"metav1", corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
			`{"LabelSelector":{"matchLabels":{"a":"b"}},"Namespaces":null,"TopologyKey":"","NamespaceSelector":null,"MatchLabelKeys":null,"MismatchLabelKeys":null}`},
		{"map of structs", map[string]corev1.LocalObjectReference{"b": {}, "a": {Name: "x"}},
			`{"a":{"Name":"x"},"b":{"Name":""}}`},
		{"inline", resourcev1.DeviceClaimConfiguration{}, `{"Requests":null,"Opaque":null}`},
		{"metadata", resourcev1.ResourceClaimTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
			`{"name":"n","Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Unversioned(tc.value).MarshalJSON()
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}
