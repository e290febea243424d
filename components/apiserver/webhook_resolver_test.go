package apiserver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// TestResolvesFamilies: endpoints of a Service's first family are taken as long as there is one that is ready.
func TestResolvesFamilies(t *testing.T) {
	port, name := int32(8443), "https"
	slice := func(family discoveryv1.AddressType, address string, ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(family),
				Labels: map[string]string{discoveryv1.LabelServiceName: "zoo"}},
			AddressType: family, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		}
	}
	store := &objectstest.Store{}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "zoo"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: name, Port: 443}},
		},
	}
	store.Put(corev1.Resource("services"), service)
	slices := discoveryv1.Resource("endpointslices")
	store.Put(slices, slice(discoveryv1.AddressTypeIPv4, "10.0.0.1", true))
	for _, test := range []struct {
		ready bool
		want  string
	}{{true, "[fd00::1]:8443"}, {false, "10.0.0.1:8443"}} {
		store.Put(slices, slice(discoveryv1.AddressTypeIPv6, "fd00::1", test.ready))
		for range 50 { // which of several is taken is random
			at, err := (serviceResolver{objects: store}).ResolveEndpoint("default", "zoo", 443)
			if err != nil || at.Host != test.want {
				t.Fatalf("with one of the first family that is ready (%v): %v, %v", test.ready, at, err)
			}
		}
	}
}
