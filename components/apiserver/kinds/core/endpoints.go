package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/discovery"
)

// DefaultEndpoints sets the defaults of endpoints.
func DefaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			setString(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

// ValidateEndpoints checks endpoints.
func ValidateEndpoints(e *corev1.Endpoints) field.ErrorList {
	errs := validation.ValidateAnnotations(e.Annotations, field.NewPath("annotations"))
	for i := range e.Subsets {
		s, at := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		errs = append(errs, validateEndpointAddresses(s.Addresses, at.Child("addresses"))...)
		errs = append(errs, validateEndpointAddresses(s.NotReadyAddresses, at.Child("notReadyAddresses"))...)
		for j := range s.Ports {
			p, at := &s.Ports[j], at.Child("ports").Index(j)
			if p.Name == "" && len(s.Ports) > 1 {
				errs = append(errs, field.Required(at.Child("name"), ""))
			} else if p.Name != "" {
				errs = append(errs, checks.Text(p.Name, at.Child("name"), utilvalidation.IsDNS1123Label)...)
			}
			for _, msg := range utilvalidation.IsValidPortNum(int(p.Port)) {
				errs = append(errs, field.Invalid(at.Child("port"), p.Port, msg))
			}
			errs = append(errs, checks.OneOf(p.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
			if p.AppProtocol != nil {
				errs = append(errs, checks.Text(*p.AppProtocol, at.Child("appProtocol"), utilvalidation.IsQualifiedName)...)
			}
		}
	}
	return errs
}

func validateEndpointAddresses(list []corev1.EndpointAddress, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		a, at := &list[i], path.Index(i)
		if more := utilvalidation.IsValidIPForLegacyField(at.Child("ip"), a.IP, false, nil); len(more) > 0 {
			errs = append(errs, more...)
		} else {
			errs = append(errs, discovery.NonSpecialIP(a.IP, at.Child("ip"))...)
		}
		if a.Hostname != "" {
			errs = append(errs, checks.Text(a.Hostname, at.Child("hostname"), utilvalidation.IsDNS1123Label)...)
		}
		if a.NodeName != nil {
			errs = append(errs, checks.Text(*a.NodeName, at.Child("nodeName"), checks.Subdomain)...)
		}
	}
	return errs
}
