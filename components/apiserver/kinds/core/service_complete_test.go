package core

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestServicesOfLongAgo have one address and no families in the store.
func TestServicesOfLongAgo(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	single, both := ptr.To(corev1.IPFamilyPolicySingleStack), ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	type spec = corev1.ServiceSpec
	for name, c := range map[string]struct {
		primary  corev1.IPFamily
		is, want spec
	}{
		"an address": {v4, spec{ClusterIP: "10.0.0.1"},
			spec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}, IPFamilies: []corev1.IPFamily{v4},
				IPFamilyPolicy: single}},
		"an address of the other family": {v4, spec{ClusterIP: "fd::1"},
			spec{ClusterIP: "fd::1", ClusterIPs: []string{"fd::1"}, IPFamilies: []corev1.IPFamily{v6},
				IPFamilyPolicy: single}},
		"headless, of pods": {v6, spec{ClusterIP: "None", Selector: map[string]string{"a": "b"}},
			spec{ClusterIP: "None", Selector: map[string]string{"a": "b"}, ClusterIPs: []string{"None"},
				IPFamilies: []corev1.IPFamily{v6}, IPFamilyPolicy: single}},
		"headless, of anything": {v6, spec{ClusterIP: "None"},
			spec{ClusterIP: "None", ClusterIPs: []string{"None"}, IPFamilies: []corev1.IPFamily{v6, v4},
				IPFamilyPolicy: both}},
		"two addresses": {v4, spec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1", "fd::1"}},
			spec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1", "fd::1"},
				IPFamilies: []corev1.IPFamily{v4, v6}, IPFamilyPolicy: both}},
		"families": {v6, spec{ClusterIP: "None", IPFamilies: []corev1.IPFamily{v4}},
			spec{ClusterIP: "None", ClusterIPs: []string{"None"}, IPFamilies: []corev1.IPFamily{v4}}},
		"no address": {v4, spec{}, spec{}},
		"an external name": {v4, spec{Type: corev1.ServiceTypeExternalName,
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyCluster)},
			spec{Type: corev1.ServiceTypeExternalName}},
	} {
		s := &corev1.Service{Spec: c.is}
		CompleteService(s, c.primary)
		if !reflect.DeepEqual(s.Spec, c.want) {
			t.Errorf("%s: %+v, want %+v", name, s.Spec, c.want)
		}
	}
}
