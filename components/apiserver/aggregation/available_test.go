package aggregation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
)

func TestLacks(t *testing.T) {
	service := func(kind corev1.ServiceType, port int32) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Name: "https", Port: port}}}}
	}
	slice := func(of, port string, ready *bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: of}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
			Ports:      []discoveryv1.EndpointPort{{Name: &port, Port: new(int32(8443))}},
		}
	}
	tests := []struct {
		name            string
		service         *corev1.Service
		slices          []*discoveryv1.EndpointSlice
		port            *int32
		reason, message string
	}{
		{
			name: "nothing", service: service(corev1.ServiceTypeClusterIP, 443),
			slices: []*discoveryv1.EndpointSlice{slice("zoo", "https", ptr.To(false)), slice("zoo", "https", nil)},
		},
		{name: "another port", service: service(corev1.ServiceTypeClusterIP, 8443), slices: []*discoveryv1.EndpointSlice{slice("zoo", "https", nil)}, port: ptr.To[int32](8443)},
		{
			name: "port", service: service(corev1.ServiceTypeClusterIP, 444),
			reason: "ServicePortError", message: `service/zoo in "default" is not listening on port 443`,
		},
		{
			name: "slices", service: service(corev1.ServiceTypeClusterIP, 443), slices: []*discoveryv1.EndpointSlice{slice("other", "https", nil)},
			reason: "EndpointsNotFound", message: `cannot find endpointslices for service/zoo in "default"`,
		},
		{
			name: "ready endpoints", service: service(corev1.ServiceTypeClusterIP, 443), slices: []*discoveryv1.EndpointSlice{slice("zoo", "https", ptr.To(false))},
			reason: "MissingEndpoints", message: `endpointslices for service/zoo in "default" have no addresses with port name "https"`,
		},
		{
			name: "endpoints with that port", service: service(corev1.ServiceTypeClusterIP, 443), slices: []*discoveryv1.EndpointSlice{slice("zoo", "", nil)},
			reason: "MissingEndpoints", message: `endpointslices for service/zoo in "default" have no addresses with port name "https"`,
		},
		{name: "no judgement", service: service(corev1.ServiceTypeExternalName, 1)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ref := &apiregistrationv1.ServiceReference{Namespace: "default", Name: "zoo", Port: test.port}
			if reason, message := lacks(ref, test.service, test.slices); reason != test.reason || message != test.message {
				t.Errorf("%q, %q", reason, message)
			}
		})
	}
}
