package quotas

import (
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/internal/resources"
)

// Ignored are the resources that no quota is about: those of which nothing is stored, and Events.
func Ignored(of schema.GroupResource) bool {
	switch of {
	case corev1.Resource("bindings"), corev1.Resource("componentstatuses"),
		authenticationv1.Resource("tokenreviews"), authenticationv1.Resource("selfsubjectreviews"),
		authorizationv1.Resource("subjectaccessreviews"), authorizationv1.Resource("selfsubjectaccessreviews"),
		authorizationv1.Resource("localsubjectaccessreviews"), authorizationv1.Resource("selfsubjectrulesreviews"),
		corev1.Resource("events"), eventsv1.Resource("events"):
		return true
	}
	return false
}

// Extended reports whether the name is that of an extended resource, or of a device class as one.
func Extended(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) || resources.Extended(name)
}

// Charged picks those of names under which objects of a resource can be charged, whether this one is or not. mapped
// tells whether a device class has the name of an extended resource.
func Charged(of schema.GroupResource, names []corev1.ResourceName,
	mapped func(extended corev1.ResourceName) bool) []corev1.ResourceName {
	var charged func(name corev1.ResourceName) bool
	switch of {
	case corev1.Resource("pods"):
		charged = chargesPods
	case corev1.Resource("services"):
		charged = func(name corev1.ResourceName) bool {
			return name == corev1.ResourceServicesNodePorts || name == corev1.ResourceServicesLoadBalancers
		}
	case corev1.Resource("persistentvolumeclaims"):
		charged = func(name corev1.ResourceName) bool {
			return name == corev1.ResourceRequestsStorage ||
				strings.HasSuffix(string(name), OfStorageClass+string(corev1.ResourceRequestsStorage)) ||
				strings.HasSuffix(string(name), OfStorageClass+string(corev1.ResourcePersistentVolumeClaims))
		}
	case resourcev1.Resource("resourceclaims"):
		charged = func(name corev1.ResourceName) bool {
			extended, ok := extendedRequest(name)
			return strings.HasSuffix(string(name), OfDeviceClass) || ok && mapped(extended)
		}
	default:
		charged = func(corev1.ResourceName) bool { return false }
	}
	var out []corev1.ResourceName
	for _, name := range names {
		if kind, number := Counted(name); number && kind == of || charged(name) {
			out = append(out, name)
		}
	}
	return out
}

func chargesPods(name corev1.ResourceName) bool {
	_, extended := extendedRequest(name)
	return extended || slices.Contains([]corev1.ResourceName{corev1.ResourcePods,
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	}, name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// extendedRequest returns the extended resource whose requests are charged under a name.
func extendedRequest(name corev1.ResourceName) (corev1.ResourceName, bool) {
	rest, ok := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	return corev1.ResourceName(rest), ok && Extended(corev1.ResourceName(rest))
}
