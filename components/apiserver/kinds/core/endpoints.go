package core

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// DefaultEndpoints sets the defaults of endpoints.
func DefaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			setString(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

// EndpointsWarnings tells of addresses that are not written as they should be. The controller writes none of these.
func EndpointsWarnings(e, _ *corev1.Endpoints) []string {
	if e.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var out []string
	for i, s := range e.Subsets {
		at := field.NewPath("subsets").Index(i)
		for j, a := range s.Addresses {
			out = append(out, utilvalidation.GetWarningsForIP(at.Child("addresses").Index(j).Child("ip"), a.IP)...)
		}
		for j, a := range s.NotReadyAddresses {
			out = append(out, utilvalidation.GetWarningsForIP(at.Child("notReadyAddresses").Index(j).Child("ip"),
				a.IP)...)
		}
	}
	return out
}

// ValidateEndpointsUpdate checks a change. Addresses and ports that stay as they were may have been valid once.
func ValidateEndpointsUpdate(new, old *corev1.Endpoints) field.ErrorList {
	errs := ValidateEndpoints(new)
	if len(errs) > 0 && apiequality.Semantic.DeepEqual(new.Subsets, old.Subsets) {
		return nil
	}
	return errs
}

// ValidateEndpoints checks endpoints.
func ValidateEndpoints(e *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
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
			errs = append(errs, checks.OneOf(p.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP,
				corev1.ProtocolSCTP)...)
			if p.AppProtocol != nil {
				errs = append(errs, checks.Text(*p.AppProtocol, at.Child("appProtocol"),
					utilvalidation.IsQualifiedName)...)
			}
		}
	}
	return errs
}

func validateEndpointAddresses(list []corev1.EndpointAddress, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		a, at := &list[i], path.Index(i)
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(at.Child("ip"), a.IP, true, nil)...)
		if a.Hostname != "" {
			errs = append(errs, checks.Text(a.Hostname, at.Child("hostname"), utilvalidation.IsDNS1123Label)...)
		}
		if a.NodeName != nil {
			errs = append(errs, checks.Text(*a.NodeName, at.Child("nodeName"), checks.Subdomain)...)
		}
		if netutils.ParseIPSloppy(a.IP) == nil {
			errs = append(errs, field.Invalid(at.Child("ip"), a.IP, "must be a valid IP address"))
		}
		errs = append(errs, checks.NonSpecialIP(a.IP, at.Child("ip"))...)
	}
	return errs
}
