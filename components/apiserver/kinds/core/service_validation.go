package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

const (
	onlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'"
	keptForever      = "may not change once set"
	maxAffinity      = 86400 // seconds
)

// ValidateService checks a new service that has got what is allocated for it.
func ValidateService(s *corev1.Service) field.ErrorList { return validateService(s, nil) }

// ValidateServiceUpdate checks a change: the addresses and ports that clients know stay.
func ValidateServiceUpdate(new, old *corev1.Service) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateAddressChange(new, old, path)
	is, was := new.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass
	if isLoadBalancer(new) && isLoadBalancer(old) && !ptr.Equal(is, was) {
		errs = append(errs, field.Invalid(path.Child("loadBalancerClass"), is, keptForever))
	}
	errs = append(errs, validateLoadBalancerClass(new, path.Child("loadBalancerClass"))...)
	if NeedsHealthCheckPort(old) && NeedsHealthCheckPort(new) &&
		new.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(path.Child("healthCheckNodePort"), "field is immutable"))
	}
	return append(errs, validateService(new, old)...)
}

// validateService checks a service; what old, if there is one, has already is not refused for its form.
func validateService(s, old *corev1.Service) field.ErrorList {
	path, spec := field.NewPath("spec"), &s.Spec
	ports := path.Child("ports")
	if old == nil {
		old = &corev1.Service{}
	}
	errs := validateTopologyAnnotations(s)
	if len(spec.Ports) == 0 && !Headless(s) && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(ports, ""))
	}
	errs = append(errs, validateForType(s, path)...)
	errs = append(errs, validateEachPort(spec.Ports, ports)...)
	if spec.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	}
	errs = append(errs, validateAffinity(spec, path)...)
	errs = append(errs, validateClusterIPs(s, old, path)...)
	for i, ip := range spec.ExternalIPs {
		at := path.Child("externalIPs").Index(i)
		if more := utilvalidation.IsValidIPForLegacyField(at, ip, true, old.Spec.ExternalIPs); len(more) > 0 {
			errs = append(errs, more...)
		} else {
			errs = append(errs, checks.NonSpecialIP(ip, at)...)
		}
	}
	errs = append(errs, checks.OneOf(spec.Type, path.Child("type"), corev1.ServiceTypeClusterIP,
		corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)...)
	errs = append(errs, validatePortsTogether(spec, ports)...)
	errs = append(errs, validateSourceRanges(s, old, path)...)
	if spec.AllocateLoadBalancerNodePorts != nil && !isLoadBalancer(s) {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), onlyLoadBalancer))
	}
	if isLoadBalancer(s) && spec.AllocateLoadBalancerNodePorts == nil {
		// the path is upstream's
		errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
	}
	errs = append(errs, validateLoadBalancerClass(s, path.Child("loadBalancerClass"))...)
	return append(errs, validateTraffic(s, path)...)
}

func isLoadBalancer(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer }

// Headless reports whether the Service wants no cluster IP. Further addresses after None are refused elsewhere.
func Headless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func validateTopologyAnnotations(s *corev1.Service) field.ErrorList {
	hints, has := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, hasMode := s.Annotations[corev1.AnnotationTopologyMode]
	if has && hasMode && hints != mode {
		return field.ErrorList{field.Invalid(
			field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), mode,
			fmt.Sprintf("must match annotations[%s] when both are specified",
				corev1.DeprecatedAnnotationTopologyAwareHints))}
	}
	return nil
}

func validateForType(s *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	if spec.Type != corev1.ServiceTypeExternalName {
		if Headless(s) && takesNodePorts(s) {
			return field.ErrorList{field.Invalid(path.Child("clusterIPs").Index(0), corev1.ClusterIPNone,
				fmt.Sprintf("may not be set to 'None' for %s services", spec.Type))}
		}
		return nil
	}
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"clusterIPs", len(spec.ClusterIPs) > 0}, {"ipFamilies", len(spec.IPFamilies) > 0},
		{"ipFamilyPolicy", spec.IPFamilyPolicy != nil},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), "may not be set for ExternalName services"))
		}
	}
	name := strings.TrimSuffix(spec.ExternalName, ".")
	if name == "" {
		return append(errs, field.Required(path.Child("externalName"), ""))
	}
	return append(errs, checks.Text(name, path.Child("externalName"), utilvalidation.IsDNS1123Subdomain)...)
}

func validateEachPort(ports []corev1.ServicePort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		switch {
		case p.Name != "":
			errs = append(errs, checks.Text(p.Name, at.Child("name"), utilvalidation.IsDNS1123Label)...)
			if names.Has(p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names.Insert(p.Name)
		case len(ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		for _, msg := range utilvalidation.IsValidPortNum(int(p.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), p.Port, msg))
		}
		errs = append(errs, checks.OneOf(p.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP,
			corev1.ProtocolSCTP)...)
		errs = append(errs, targetPort(p.TargetPort, at.Child("targetPort"))...)
		if p.AppProtocol != nil {
			errs = append(errs, checks.Text(*p.AppProtocol, at.Child("appProtocol"), utilvalidation.IsQualifiedName)...)
		}
	}
	return errs
}

// validatePortsTogether checks that no two ports are the same.
func validatePortsTogether(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Type == corev1.ServiceTypeClusterIP {
		for i, p := range spec.Ports {
			if p.NodePort != 0 {
				errs = append(errs, field.Forbidden(path.Index(i).Child("nodePort"),
					"may not be used when `type` is 'ClusterIP'"))
			}
		}
	}
	nodes, ports := sets.New[corev1.ServicePort](), sets.New[corev1.ServicePort]()
	for i, p := range spec.Ports {
		key := corev1.ServicePort{Protocol: p.Protocol, NodePort: p.NodePort}
		if p.NodePort != 0 && nodes.Has(key) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("nodePort"), p.NodePort))
		}
		nodes.Insert(key)
	}
	for i, p := range spec.Ports {
		key := corev1.ServicePort{Protocol: p.Protocol, Port: p.Port}
		if ports.Has(key) {
			errs = append(errs, field.Duplicate(path.Index(i), checks.Unversioned(key)))
		}
		ports.Insert(key)
	}
	return errs
}

func targetPort(p intstr.IntOrString, at *field.Path) field.ErrorList {
	if p.Type == intstr.String {
		return checks.Text(p.StrVal, at, utilvalidation.IsValidPortName)
	}
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsValidPortNum(p.IntValue()) {
		errs = append(errs, field.Invalid(at, p.IntVal, msg))
	}
	return errs
}

func validateAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	errs := checks.OneOf(spec.SessionAffinity, path.Child("sessionAffinity"), corev1.ServiceAffinityClientIP,
		corev1.ServiceAffinityNone)
	at := path.Child("sessionAffinityConfig")
	c := spec.SessionAffinityConfig
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityClientIP:
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil { // defaulting leaves none of these out
			return append(errs, field.Required(at,
				fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)))
		}
		if t := *c.ClientIP.TimeoutSeconds; t <= 0 || t > maxAffinity {
			errs = append(errs, field.Invalid(at.Child("clientIP", "timeoutSeconds"), t,
				fmt.Sprintf("must be greater than 0 and less than %d", maxAffinity)))
		}
	case corev1.ServiceAffinityNone:
		if c != nil {
			errs = append(errs, field.Forbidden(at,
				fmt.Sprintf("must not be set when session affinity is %s", corev1.ServiceAffinityNone)))
		}
	}
	return errs
}

// validateSourceRanges checks the clients of a load balancer, in the field or, without one, in the annotation of old.
// The field's name in errors is upstream's, and so is that spaces around a range are none of it.
func validateSourceRanges(s, old *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	path = path.Child("LoadBalancerSourceRanges")
	text, annotated := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	ranges := len(s.Spec.LoadBalancerSourceRanges) > 0
	if !ranges {
		path = field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	}
	if (ranges || annotated) && !isLoadBalancer(s) {
		errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
	}
	if ranges {
		known := make([]string, 0, len(old.Spec.LoadBalancerSourceRanges))
		for _, r := range old.Spec.LoadBalancerSourceRanges {
			known = append(known, strings.TrimSpace(r))
		}
		for i, r := range s.Spec.LoadBalancerSourceRanges {
			errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(path.Index(i), strings.TrimSpace(r), true,
				known)...)
		}
		return errs
	}
	was, had := old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if text = strings.TrimSpace(text); text == "" ||
		had && was == s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] {
		return errs
	}
	for r := range strings.SplitSeq(text, ",") {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(path, strings.TrimSpace(r), true, nil)...)
	}
	return errs
}

func validateLoadBalancerClass(s *corev1.Service, path *field.Path) field.ErrorList {
	switch class := s.Spec.LoadBalancerClass; {
	case class == nil:
		return nil
	case !isLoadBalancer(s):
		return field.ErrorList{field.Forbidden(path, onlyLoadBalancer)}
	default:
		return checks.Text(*class, path, utilvalidation.IsQualifiedName)
	}
}

func validateTraffic(s *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	etp := path.Child("externalTrafficPolicy")
	if !ReachedFromOutside(s) {
		if spec.ExternalTrafficPolicy != "" {
			errs = append(errs, field.Invalid(etp, spec.ExternalTrafficPolicy,
				"may only be set for externally-accessible services"))
		}
	} else {
		errs = append(errs, checks.OneOf(spec.ExternalTrafficPolicy, etp,
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	}
	port := path.Child("healthCheckNodePort")
	switch n := spec.HealthCheckNodePort; {
	case !NeedsHealthCheckPort(s):
		if n != 0 {
			errs = append(errs, field.Invalid(port, n,
				"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
		}
	case n == 0:
		errs = append(errs, field.Required(port, ""))
	default:
		for _, msg := range utilvalidation.IsValidPortNum(int(n)) {
			errs = append(errs, field.Invalid(port, n, msg))
		}
	}
	itp := path.Child("internalTrafficPolicy")
	if p := spec.InternalTrafficPolicy; p == nil {
		if takesNodePorts(s) || spec.Type == corev1.ServiceTypeClusterIP {
			errs = append(errs, field.Required(itp, ""))
		}
	} else if *p != corev1.ServiceInternalTrafficPolicyCluster && *p != corev1.ServiceInternalTrafficPolicyLocal {
		errs = append(errs, field.NotSupported(itp, *p,
			[]corev1.ServiceInternalTrafficPolicy{corev1.ServiceInternalTrafficPolicyCluster,
				corev1.ServiceInternalTrafficPolicyLocal}))
	}
	if d := spec.TrafficDistribution; d != nil {
		errs = append(errs, checks.In(*d, path.Child("trafficDistribution"),
			corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	return errs
}

// ValidateServiceStatus checks a change of the status.
func ValidateServiceStatus(new, old *corev1.Service) field.ErrorList {
	path := field.NewPath("status", "loadBalancer", "ingress")
	ingress := new.Status.LoadBalancer.Ingress
	if !isLoadBalancer(new) && len(ingress) > 0 {
		return field.ErrorList{field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var known []string
	for _, i := range old.Status.LoadBalancer.Ingress {
		known = append(known, i.IP)
	}
	var errs field.ErrorList
	for n, i := range ingress {
		at := path.Index(n)
		if i.IP != "" {
			errs = append(errs, utilvalidation.IsValidIPForLegacyField(at.Child("ip"), i.IP, true, known)...)
		}
		mode := at.Child("ipMode")
		switch {
		case i.IPMode == nil && i.IP != "":
			errs = append(errs, field.Required(mode, "must be specified when `ip` is set"))
		case i.IPMode != nil && i.IP == "":
			errs = append(errs, field.Forbidden(mode, "may not be specified when `ip` is not set"))
		case i.IPMode != nil:
			errs = append(errs, checks.In(*i.IPMode, mode, corev1.LoadBalancerIPModeProxy,
				corev1.LoadBalancerIPModeVIP)...)
		}
		if i.Hostname != "" {
			errs = append(errs, checks.Text(i.Hostname, at.Child("hostname"), utilvalidation.IsDNS1123Subdomain)...)
			if netutils.ParseIPSloppy(i.Hostname) != nil {
				errs = append(errs, field.Invalid(at.Child("hostname"), i.Hostname,
					"must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}
