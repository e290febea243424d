package discovery

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Bounds of an endpoint slice.
const (
	maxAddresses = 100
	maxPorts     = 20_000
	maxEndpoints = 1000
	maxZoneHints = 8
	maxNodeHints = 8
)

var (
	addressTypes = sets.New(discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN)
	protocols    = sets.New(corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
)

// Validate checks an endpoint slice.
func Validate(s *discoveryv1.EndpointSlice) field.ErrorList {
	var errs field.ErrorList
	if s.AddressType == "" {
		errs = append(errs, field.Required(field.NewPath("addressType"), ""))
	} else if !addressTypes.Has(s.AddressType) {
		errs = append(errs, field.NotSupported(field.NewPath("addressType"), s.AddressType, sets.List(addressTypes)))
	}
	errs = append(errs, validateEndpoints(s.Endpoints, s.AddressType, field.NewPath("endpoints"))...)
	return append(errs, validatePorts(s.Ports, field.NewPath("ports"))...)
}

// ValidateUpdate checks a change: the type of addresses stays.
func ValidateUpdate(new, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := Validate(new)
	return append(errs, validation.ValidateImmutableField(new.AddressType, old.AddressType, field.NewPath("addressType"))...)
}

func validateEndpoints(list []discoveryv1.Endpoint, kind discoveryv1.AddressType, path *field.Path) field.ErrorList {
	if len(list) > maxEndpoints {
		return field.ErrorList{field.TooMany(path, len(list), maxEndpoints)}
	}
	var errs field.ErrorList
	for i := range list {
		e, p := &list[i], path.Index(i)
		if len(e.Addresses) == 0 {
			errs = append(errs, field.Required(p.Child("addresses"), "must contain at least 1 address"))
		} else if len(e.Addresses) > maxAddresses {
			errs = append(errs, field.TooMany(p.Child("addresses"), len(e.Addresses), maxAddresses))
		}
		for j, a := range e.Addresses {
			errs = append(errs, validateAddress(a, kind, p.Child("addresses").Index(j))...)
		}
		if e.NodeName != nil {
			for _, msg := range validation.NameIsDNSSubdomain(*e.NodeName, false) {
				errs = append(errs, field.Invalid(p.Child("nodeName"), *e.NodeName, msg))
			}
		}
		errs = append(errs, metavalidation.ValidateLabels(e.DeprecatedTopology, p.Child("deprecatedTopology"))...)
		if _, ok := e.DeprecatedTopology[corev1.LabelTopologyZone]; ok {
			errs = append(errs, field.Forbidden(p.Child("deprecatedTopology").Key(corev1.LabelTopologyZone),
				"must not be set in deprecatedTopology, use the `zone` field"))
		}
		if e.Hostname != nil {
			for _, msg := range utilvalidation.IsDNS1123Label(*e.Hostname) {
				errs = append(errs, field.Invalid(p.Child("hostname"), *e.Hostname, msg))
			}
		}
		errs = append(errs, validateHints(e.Hints, p.Child("hints"))...)
	}
	return errs
}

func validateAddress(a string, kind discoveryv1.AddressType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch kind {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
		errs = append(errs, utilvalidation.IsValidIP(path, a)...)
		if kind == discoveryv1.AddressTypeIPv4 && !netutils.IsIPv4String(a) {
			errs = append(errs, field.Invalid(path, a, "must be an IPv4 address"))
		}
		if kind == discoveryv1.AddressTypeIPv6 && !netutils.IsIPv6String(a) {
			errs = append(errs, field.Invalid(path, a, "must be an IPv6 address"))
		}
		errs = append(errs, NonSpecialIP(a, path)...)
	case discoveryv1.AddressTypeFQDN:
		errs = append(errs, utilvalidation.IsFullyQualifiedDomainName(path, a)...)
	}
	return errs
}

// NonSpecialIP refuses addresses that can't be those of an endpoint.
func NonSpecialIP(a string, path *field.Path) field.ErrorList {
	ip := netutils.ParseIPSloppy(a)
	if ip == nil {
		return nil
	}
	var errs field.ErrorList
	for _, c := range []struct {
		is  bool
		msg string
	}{
		{ip.IsUnspecified(), fmt.Sprintf("may not be unspecified (%v)", a)},
		{ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if c.is {
			errs = append(errs, field.Invalid(path, a, c.msg))
		}
	}
	return errs
}

func validateHints(h *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	var errs field.ErrorList
	zones, nodes := path.Child("forZones"), path.Child("forNodes")
	if len(h.ForZones) > maxZoneHints {
		errs = append(errs, field.TooMany(zones, len(h.ForZones), maxZoneHints))
	}
	if len(h.ForNodes) > maxNodeHints {
		errs = append(errs, field.TooMany(nodes, len(h.ForNodes), maxNodeHints))
	}
	seen := sets.New[string]()
	for i, z := range h.ForZones {
		if seen.Has(z.Name) {
			errs = append(errs, field.Duplicate(zones.Index(i).Child("name"), z.Name))
		}
		seen.Insert(z.Name)
		for _, msg := range utilvalidation.IsValidLabelValue(z.Name) {
			errs = append(errs, field.Invalid(zones.Index(i).Child("name"), z.Name, msg))
		}
	}
	seen = sets.New[string]()
	for i, n := range h.ForNodes {
		if seen.Has(n.Name) {
			errs = append(errs, field.Duplicate(nodes.Index(i).Child("name"), n.Name))
		}
		seen.Insert(n.Name)
		for _, msg := range validation.NameIsDNSSubdomain(n.Name, false) {
			errs = append(errs, field.Invalid(nodes.Index(i).Child("name"), n.Name, msg))
		}
	}
	return errs
}

func validatePorts(ports []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	if len(ports) > maxPorts {
		return field.ErrorList{field.TooMany(path, len(ports), maxPorts)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if name != "" {
			for _, msg := range utilvalidation.IsDNS1123Label(name) {
				errs = append(errs, field.Invalid(at.Child("name"), name, msg))
			}
		}
		if seen.Has(name) {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		seen.Insert(name)
		if p.Protocol == nil {
			errs = append(errs, field.Required(at.Child("protocol"), ""))
		} else if !protocols.Has(*p.Protocol) {
			errs = append(errs, field.NotSupported(at.Child("protocol"), *p.Protocol, sets.List(protocols)))
		}
		if p.AppProtocol != nil {
			for _, msg := range utilvalidation.IsQualifiedName(*p.AppProtocol) {
				errs = append(errs, field.Invalid(at.Child("appProtocol"), *p.AppProtocol, msg))
			}
		}
	}
	return errs
}
