package kinds

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	eventsv1 "k8s.io/api/events/v1"
	eventsv1beta1 "k8s.io/api/events/v1beta1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// TestPartsOfFormerVersionsAreAlike: what the conversions of former versions take as it lies in memory is laid out as
// in the other version.
func TestPartsOfFormerVersionsAreAlike(t *testing.T) {
	for _, pair := range [][2]any{
		{appsv1.DeploymentStatus{}, appsv1beta1.DeploymentStatus{}},
		{appsv1.DeploymentStrategy{}, appsv1beta1.DeploymentStrategy{}},
		{appsv1.DaemonSetStatus{}, extensionsv1beta1.DaemonSetStatus{}},
		{appsv1.DaemonSetUpdateStrategy{}, extensionsv1beta1.DaemonSetUpdateStrategy{}},
		{appsv1.StatefulSetSpec{}, appsv1beta1.StatefulSetSpec{}},
		{appsv1.StatefulSetCondition{}, appsv1beta1.StatefulSetCondition{}},
		{appsv1beta1.Deployment{}, extensionsv1beta1.Deployment{}},
		{certificatesv1.CertificateSigningRequestStatus{}, certificatesv1beta1.CertificateSigningRequestStatus{}},
		{certificatesv1.KeyUsage(""), certificatesv1beta1.KeyUsage("")},
		{certificatesv1.ExtraValue{}, certificatesv1beta1.ExtraValue{}},
		{discoveryv1.EndpointPort{}, discoveryv1beta1.EndpointPort{}},
		{discoveryv1.EndpointConditions{}, discoveryv1beta1.EndpointConditions{}},
		{discoveryv1.EndpointHints{}, discoveryv1beta1.EndpointHints{}},
		{eventsv1.Event{}, eventsv1beta1.Event{}},
		{flowcontrolv1.PriorityLevelConfigurationStatus{}, flowcontrolv1beta2.PriorityLevelConfigurationStatus{}},
		{flowcontrolv1.ExemptPriorityLevelConfiguration{}, flowcontrolv1beta2.ExemptPriorityLevelConfiguration{}},
		{flowcontrolv1.LimitResponse{}, flowcontrolv1beta2.LimitResponse{}},
		{flowcontrolv1beta2.PriorityLevelConfigurationStatus{}, flowcontrolv1beta3.PriorityLevelConfigurationStatus{}},
		{flowcontrolv1beta2.ExemptPriorityLevelConfiguration{}, flowcontrolv1beta3.ExemptPriorityLevelConfiguration{}},
		{flowcontrolv1beta2.LimitResponse{}, flowcontrolv1beta3.LimitResponse{}},
		{flowcontrolv1beta2.PriorityLevelConfiguration{}, flowcontrolv1beta1.PriorityLevelConfiguration{}},
		{networkingv1.IngressStatus{}, networkingv1beta1.IngressStatus{}},
		{networkingv1.IngressTLS{}, networkingv1beta1.IngressTLS{}},
		{networkingv1.PathType(""), networkingv1beta1.PathType("")},
		{networkingv1beta1.Ingress{}, extensionsv1beta1.Ingress{}},
		{nodev1.Overhead{}, nodev1alpha1.Overhead{}},
		{nodev1.Scheduling{}, nodev1alpha1.Scheduling{}},
		{rbacv1.RoleRef{}, rbacv1alpha1.RoleRef{}},
	} {
		if a, b := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1]); !twin.Alike(a, b) {
			t.Errorf("%s and %s", a, b)
		}
	}
}
