package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/discovery"
)

const (
	onlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'"
	kubeletPort      = 10250
	maxAffinity      = 86400 // seconds
)

// ValidateService checks a service, before anything was allocated for it.
func ValidateService(s *corev1.Service) field.ErrorList {
	path, spec := field.NewPath("spec"), &s.Spec
	headless := len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == corev1.ClusterIPNone || spec.ClusterIP == corev1.ClusterIPNone
	var errs field.ErrorList
	if len(spec.Ports) == 0 && !headless && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	errs = append(errs, validateServiceType(s, headless, path)...)
	errs = append(errs, validateServicePorts(s, path.Child("ports"))...)
	if spec.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	}
	errs = append(errs, validateAffinity(spec, path)...)
	for i, ip := range spec.ExternalIPs {
		at := path.Child("externalIPs").Index(i)
		if more := utilvalidation.IsValidIPForLegacyField(at, ip, false, nil); len(more) > 0 {
			errs = append(errs, more...)
		} else {
			errs = append(errs, discovery.NonSpecialIP(ip, at)...)
		}
	}
	errs = append(errs, validateLoadBalancer(spec, path)...)
	errs = append(errs, validateTraffic(s, path)...)
	return append(errs, validateClusterIPs(spec, path)...)
}

func validateServiceType(s *corev1.Service, headless bool, path *field.Path) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for i := range spec.Ports {
			if spec.Ports[i].Port == kubeletPort {
				errs = append(errs, field.Invalid(path.Child("ports").Index(i), spec.Ports[i].Port,
					fmt.Sprintf("may not expose port %v externally since it is used by kubelet", kubeletPort)))
			}
		}
		if headless {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), corev1.ClusterIPNone, "may not be set to 'None' for LoadBalancer services"))
		}
	case corev1.ServiceTypeNodePort:
		if headless {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), corev1.ClusterIPNone, "may not be set to 'None' for NodePort services"))
		}
	case corev1.ServiceTypeExternalName:
		const not = "may not be set for ExternalName services"
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"clusterIPs", len(spec.ClusterIPs) > 0 || spec.ClusterIP != ""}, {"ipFamilies", len(spec.IPFamilies) > 0},
			{"ipFamilyPolicy", spec.IPFamilyPolicy != nil},
		} {
			if f.set {
				errs = append(errs, field.Forbidden(path.Child(f.name), not))
			}
		}
		if spec.ExternalName == "" {
			errs = append(errs, field.Required(path.Child("externalName"), ""))
		} else {
			name := spec.ExternalName
			if name[len(name)-1] == '.' {
				name = name[:len(name)-1]
			}
			errs = append(errs, checks.Text(name, path.Child("externalName"), utilvalidation.IsDNS1123Subdomain)...)
		}
	}
	return append(errs, checks.OneOf(spec.Type, path.Child("type"), corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)...)
}

func validateServicePorts(s *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type id struct {
		protocol corev1.Protocol
		port     int32
	}
	names, ids, nodes := sets.New[string](), sets.New[id](), sets.New[id]()
	for i := range s.Spec.Ports {
		p, at := &s.Spec.Ports[i], path.Index(i)
		switch {
		case p.Name != "":
			errs = append(errs, checks.Text(p.Name, at.Child("name"), utilvalidation.IsDNS1123Label)...)
			if names.Has(p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names.Insert(p.Name)
		case len(s.Spec.Ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		for _, msg := range utilvalidation.IsValidPortNum(int(p.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), p.Port, msg))
		}
		errs = append(errs, checks.OneOf(p.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		errs = append(errs, targetPort(p.TargetPort, at.Child("targetPort"))...)
		if p.AppProtocol != nil {
			errs = append(errs, checks.Text(*p.AppProtocol, at.Child("appProtocol"), utilvalidation.IsQualifiedName)...)
		}
		if (s.Spec.Type == corev1.ServiceTypeClusterIP || s.Spec.Type == corev1.ServiceTypeExternalName) && p.NodePort != 0 {
			errs = append(errs, field.Forbidden(at.Child("nodePort"), fmt.Sprintf("may not be used when `type` is '%s'", s.Spec.Type)))
		}
		if key := (id{p.Protocol, p.Port}); ids.Has(key) {
			errs = append(errs, field.Duplicate(at, corev1.ServicePort{Protocol: p.Protocol, Port: p.Port}))
		} else {
			ids.Insert(key)
		}
		if p.NodePort == 0 {
			continue
		}
		if key := (id{p.Protocol, p.NodePort}); nodes.Has(key) {
			errs = append(errs, field.Duplicate(at.Child("nodePort"), p.NodePort))
		} else {
			nodes.Insert(key)
		}
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
	errs := checks.OneOf(spec.SessionAffinity, path.Child("sessionAffinity"), corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	config := path.Child("sessionAffinityConfig")
	c := spec.SessionAffinityConfig
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityClientIP:
		at := config.Child("clientIP", "timeoutSeconds")
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			return append(errs, field.Required(config, fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)))
		}
		if t := *c.ClientIP.TimeoutSeconds; t <= 0 || t > maxAffinity {
			errs = append(errs, field.Invalid(at, t, fmt.Sprintf("must be greater than 0 and less than %d", maxAffinity)))
		}
	case corev1.ServiceAffinityNone:
		if c != nil {
			errs = append(errs, field.Forbidden(config, fmt.Sprintf("must not be set when session affinity is %s", corev1.ServiceAffinityNone)))
		}
	}
	return errs
}

func validateLoadBalancer(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	is := spec.Type == corev1.ServiceTypeLoadBalancer
	ranges := path.Child("loadBalancerSourceRanges")
	if len(spec.LoadBalancerSourceRanges) > 0 && !is {
		errs = append(errs, field.Forbidden(ranges, onlyLoadBalancer))
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(ranges.Index(i), cidr, false, nil)...)
	}
	if is && spec.AllocateLoadBalancerNodePorts == nil {
		errs = append(errs, field.Required(path.Child("allocateLoadBalancerNodePorts"), ""))
	}
	if !is && spec.AllocateLoadBalancerNodePorts != nil {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), onlyLoadBalancer))
	}
	if c := spec.LoadBalancerClass; c != nil {
		if !is {
			errs = append(errs, field.Forbidden(path.Child("loadBalancerClass"), onlyLoadBalancer))
		}
		errs = append(errs, checks.Text(*c, path.Child("loadBalancerClass"), utilvalidation.IsQualifiedName)...)
	}
	return errs
}

func validateTraffic(s *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	etp := path.Child("externalTrafficPolicy")
	if !ReachedFromOutside(s) {
		if spec.ExternalTrafficPolicy != "" {
			errs = append(errs, field.Invalid(etp, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
		}
	} else {
		errs = append(errs, checks.OneOf(spec.ExternalTrafficPolicy, etp,
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	}
	port := path.Child("healthCheckNodePort")
	if spec.HealthCheckNodePort < 0 {
		errs = append(errs, field.Invalid(port, spec.HealthCheckNodePort, "must be greater than or equal to 0"))
	}
	if !NeedsHealthCheckPort(s) && spec.HealthCheckNodePort != 0 {
		errs = append(errs, field.Invalid(port, spec.HealthCheckNodePort,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}
	itp := path.Child("internalTrafficPolicy")
	if p := spec.InternalTrafficPolicy; p != nil {
		errs = append(errs, checks.OneOf(*p, itp, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	} else if spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(itp, ""))
	}
	if d := spec.TrafficDistribution; d != nil {
		errs = append(errs, checks.OneOf(*d, path.Child("trafficDistribution"), corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameNode, corev1.ServiceTrafficDistributionPreferSameZone)...)
	}
	return errs
}
