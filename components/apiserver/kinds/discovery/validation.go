package discovery

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
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

// Validate checks an endpoint slice. old is nil for a new one.
func Validate(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	var errs field.ErrorList
	if s.AddressType == "" {
		errs = append(errs, field.Required(field.NewPath("addressType"), ""))
	} else if !addressTypes.Has(s.AddressType) {
		errs = append(errs, field.NotSupported(field.NewPath("addressType"), s.AddressType, sets.List(addressTypes)))
	}
	errs = append(errs, validatePorts(s.Ports, field.NewPath("ports"))...)
	bad := validateEndpoints(s.Endpoints, s.AddressType, field.NewPath("endpoints"))
	if len(bad) > 0 && old != nil && apiequality.Semantic.DeepEqual(old.Endpoints, s.Endpoints) {
		bad = nil // an older server took them
	}
	return append(errs, bad...)
}

// ValidateUpdate checks a change: the type of addresses stays.
func ValidateUpdate(new, old *discoveryv1.EndpointSlice) field.ErrorList {
	return append(Validate(new, old),
		validation.ValidateImmutableField(new.AddressType, old.AddressType, field.NewPath("addressType"))...)
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
			errs = append(errs, validateAddress(a, kind, p.Child("addresses"), j)...)
		}
		if e.NodeName != nil {
			errs = append(errs, checks.Text(*e.NodeName, p.Child("nodeName"), checks.Subdomain)...)
		}
		if e.Hostname != nil {
			errs = append(errs, checks.Text(*e.Hostname, p.Child("hostname"), utilvalidation.IsDNS1123Label)...)
		}
		errs = append(errs, validateHints(e.Hints, p.Child("hints"))...)
	}
	return errs
}

// validateAddress checks an address of a list. That it is of the wrong family is said of the list.
func validateAddress(a string, kind discoveryv1.AddressType, list *field.Path, i int) field.ErrorList {
	at := list.Index(i)
	switch kind {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
		valid := utilvalidation.IsValidIP
		if kind == discoveryv1.AddressTypeIPv4 { // an IPv6 address is refused as such, in whatever form
			valid = func(at *field.Path, a string) field.ErrorList {
				return utilvalidation.IsValidIPForLegacyField(at, a, true, nil)
			}
		}
		if errs := valid(at, a); len(errs) > 0 {
			return errs
		}
		var errs field.ErrorList
		switch v4 := netutils.IsIPv4String(a); {
		case v4 && kind == discoveryv1.AddressTypeIPv6:
			errs = append(errs, field.Invalid(list, a, "must be an IPv6 address"))
		case !v4 && kind == discoveryv1.AddressTypeIPv4:
			errs = append(errs, field.Invalid(list, a, "must be an IPv4 address"))
		}
		return append(errs, checks.NonSpecialIP(a, at)...)
	case discoveryv1.AddressTypeFQDN:
		return utilvalidation.IsFullyQualifiedDomainName(at, a)
	}
	return nil
}

func validateHints(h *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	zones, nodes := path.Child("forZones"), path.Child("forNodes")
	if len(h.ForZones) > maxZoneHints {
		return field.ErrorList{field.TooMany(zones, len(h.ForZones), maxZoneHints)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, z := range h.ForZones {
		errs = append(errs, validateHint(z.Name, seen, zones.Index(i).Child("name"),
			utilvalidation.IsValidLabelValue)...)
	}
	if len(h.ForNodes) > maxNodeHints {
		return append(errs, field.TooMany(nodes, len(h.ForNodes), maxNodeHints))
	}
	seen = sets.New[string]()
	for i, n := range h.ForNodes {
		errs = append(errs, validateHint(n.Name, seen, nodes.Index(i).Child("name"), checks.Subdomain)...)
	}
	return errs
}

func validateHint(name string, seen sets.Set[string], at *field.Path, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	if seen.Has(name) {
		errs = append(errs, field.Duplicate(at, name))
	}
	seen.Insert(name)
	return append(errs, checks.Text(name, at, check)...)
}

// DropTopology drops the read-only fields of v1, unless the endpoints are unchanged. old is nil on create. Node names
// that the old slice had there are kept, so that a partial change doesn't lose them.
func DropTopology(s, old *discoveryv1.EndpointSlice) {
	nodes := sets.New[string]()
	if old != nil {
		if apiequality.Semantic.DeepEqual(old.Endpoints, s.Endpoints) {
			return
		}
		for i := range old.Endpoints {
			nodes.Insert(old.Endpoints[i].DeprecatedTopology[corev1.LabelHostname])
		}
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		node := e.DeprecatedTopology[corev1.LabelHostname]
		if e.NodeName == nil && node != "" && nodes.Has(node) && len(validation.NameIsDNSSubdomain(node, false)) == 0 {
			e.NodeName = &node
		}
		e.DeprecatedTopology = nil
	}
}

// Warnings are told of addresses that are written in an ambiguous way, and of a type that is to go. old is nil on
// create. The controllers that make slices of what others wrote are spared.
func Warnings(s, old *discoveryv1.EndpointSlice) []string {
	var out []string
	if old == nil && s.AddressType == discoveryv1.AddressTypeFQDN {
		out = append(out, "spec.addressType: FQDN endpoints are deprecated")
	}
	switch s.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return out
	}
	for i := range s.Endpoints {
		for j, a := range s.Endpoints[i].Addresses {
			out = append(out, utilvalidation.GetWarningsForIP(
				field.NewPath("endpoints").Index(i).Child("addresses").Index(j), a)...)
		}
	}
	return out
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
