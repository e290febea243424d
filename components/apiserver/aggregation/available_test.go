package aggregation

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func TestLacks(t *testing.T) {
	service := func(kind corev1.ServiceType, port int32) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind,
			Ports: []corev1.ServicePort{{Name: "https", Port: port}}}}
	}
	slice := func(of, port string, ready *bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: of}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
			Ports: []discoveryv1.EndpointPort{{Name: &port, Port: new(int32(8443))}},
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
		{name: "another port", service: service(corev1.ServiceTypeClusterIP, 8443),
			slices: []*discoveryv1.EndpointSlice{slice("zoo", "https", nil)}, port: ptr.To[int32](8443)},
		{
			name: "port", service: service(corev1.ServiceTypeClusterIP, 444),
			reason: "ServicePortError", message: `service/zoo in "default" is not listening on port 443`,
		},
		{
			name: "slices", service: service(corev1.ServiceTypeClusterIP, 443),
			slices: []*discoveryv1.EndpointSlice{slice("other", "https", nil)},
			reason: "EndpointsNotFound", message: `cannot find endpointslices for service/zoo in "default"`,
		},
		{
			name: "ready endpoints", service: service(corev1.ServiceTypeClusterIP, 443),
			slices:  []*discoveryv1.EndpointSlice{slice("zoo", "https", ptr.To(false))},
			reason:  "MissingEndpoints",
			message: `endpointslices for service/zoo in "default" have no addresses with port name "https"`,
		},
		{
			name: "endpoints with that port", service: service(corev1.ServiceTypeClusterIP, 443),
			slices:  []*discoveryv1.EndpointSlice{slice("zoo", "", nil)},
			reason:  "MissingEndpoints",
			message: `endpointslices for service/zoo in "default" have no addresses with port name "https"`,
		},
		{name: "no judgement", service: service(corev1.ServiceTypeExternalName, 1)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ref := &apiregistrationv1.ServiceReference{Namespace: "default", Name: "zoo", Port: test.port}
			if reason, message := lacks(ref, test.service, test.slices); reason != test.reason ||
				message != test.message {
				t.Errorf("%q, %q", reason, message)
			}
		})
	}
}

// TestInsistsOnWhatItKnows: a status that another client has overwritten or removed is restored at once, not at the
// next check.
func TestInsistsOnWhatItKnows(t *testing.T) {
	f := start(t, (&aggregationtest.Server{}).Start(t))
	f.untilServed(t)
	f.store.Put(resource, &apiService{ObjectMeta: metav1.ObjectMeta{Name: "v1.local.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "local.example.com", Version: "v1", GroupPriorityMinimum: 1, VersionPriority: 1,
		}})
	is := func(name, reason string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			obj, err := f.store.Get(ctx, resource, "", name)
			if err != nil {
				return false, err
			}
			c := helper.GetAPIServiceConditionByType(obj.(*apiService), apiregistrationv1.Available)
			return c != nil && c.Status == apiregistrationv1.ConditionTrue && c.Reason == reason, nil
		}
	}
	wipe := func(obj api.Object) (api.Object, error) {
		obj.(*apiService).Status = apiregistrationv1.APIServiceStatus{}
		return obj, nil
	}
	for name, reason := range map[string]string{"v1.local.example.com": "Local", f.name: "Passed"} {
		if _, err := f.store.UpdateStatus(t.Context(), resource, "", name, wipe); err != nil {
			t.Fatal(err)
		}
		if err := wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, time.Minute, true,
			is(name, reason)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
