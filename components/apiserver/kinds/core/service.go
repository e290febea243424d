package core

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// affinityTimeout is how long a client stays with one endpoint unless told otherwise, in seconds.
const affinityTimeout = int32(3 * 60 * 60)

// DefaultService sets the defaults of a service, but for what allocation decides (addresses, ports, IP families).
func DefaultService(s *corev1.Service) {
	spec := &s.Spec
	setString(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	if spec.SessionAffinity == corev1.ServiceAffinityNone {
		spec.SessionAffinityConfig = nil
	}
	if spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		c := spec.SessionAffinityConfig
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			timeout := affinityTimeout
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
		}
	}
	setString(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		p := &spec.Ports[i]
		setString(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if ReachedFromOutside(s) {
		setString(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if spec.Type != corev1.ServiceTypeExternalName {
		setDefault(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		setDefault(&spec.AllocateLoadBalancerNodePorts, true)
		for i := range s.Status.LoadBalancer.Ingress {
			if ing := &s.Status.LoadBalancer.Ingress[i]; ing.IP != "" {
				setDefault(&ing.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

// ReachedFromOutside reports whether clients outside the cluster can reach the service.
func ReachedFromOutside(s *corev1.Service) bool {
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(s.Spec.ExternalIPs) > 0
	}
	return false
}

// NeedsClusterIP reports whether services of this type have cluster IPs.
func NeedsClusterIP(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

// NeedsNodePort reports whether the service takes ports on every node.
func NeedsNodePort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		(s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts)
}

// NeedsHealthCheckPort reports whether nodes serve health checks for the service.
func NeedsHealthCheckPort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// PrepareServiceCreate starts a service without a status.
func PrepareServiceCreate(s *corev1.Service) {
	s.Status = corev1.ServiceStatus{}
	if s.Spec.ClusterIP != "" && len(s.Spec.ClusterIPs) == 0 {
		s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	}
}

// PrepareServiceUpdate keeps the status, fills in allocated values that the client left out, and drops those that the
// new type has no use for, unless the client asked for them in this very update.
func PrepareServiceUpdate(new, old *corev1.Service) {
	new.Status = old.Status
	keepAllocated(new, old)
	syncClusterIPs(new, old)
	dropUnused(new, old)
}

func keepAllocated(new, old *corev1.Service) {
	if NeedsClusterIP(old) && NeedsClusterIP(new) {
		if new.Spec.ClusterIP == "" {
			new.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(new.Spec.ClusterIPs) == 0 && new.Spec.ClusterIP == old.Spec.ClusterIP {
			new.Spec.ClusterIPs = old.Spec.ClusterIPs
		}
	}
	if NeedsNodePort(old) && NeedsNodePort(new) {
		type id struct {
			protocol corev1.Protocol
			port     int32
		}
		had, used := map[id]int32{}, map[int32]bool{}
		for _, p := range old.Spec.Ports {
			had[id{p.Protocol, p.Port}] = p.NodePort
		}
		for _, p := range new.Spec.Ports {
			used[p.NodePort] = p.NodePort != 0
		}
		for i := range new.Spec.Ports {
			p := &new.Spec.Ports[i]
			if port := had[id{p.Protocol, p.Port}]; p.NodePort == 0 && port != 0 && !used[port] {
				p.NodePort = port
			}
		}
	}
	if NeedsHealthCheckPort(old) && NeedsHealthCheckPort(new) && new.Spec.HealthCheckNodePort == 0 {
		new.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

// syncClusterIPs makes clusterIP and clusterIPs agree where a client that knows one of them changed only that one.
func syncClusterIPs(new, old *corev1.Service) {
	sameOne := new.Spec.ClusterIP == old.Spec.ClusterIP
	sameAll := apiequality.Semantic.DeepEqual(new.Spec.ClusterIPs, old.Spec.ClusterIPs)
	switch {
	case !sameOne && sameAll:
		if new.Spec.ClusterIP == "" {
			new.Spec.ClusterIPs = nil
		} else {
			new.Spec.ClusterIPs = []string{new.Spec.ClusterIP}
		}
	case !sameAll && sameOne && len(new.Spec.ClusterIPs) == 0:
		new.Spec.ClusterIP = ""
	}
}

// dropUnused clears values of the old type that the new one doesn't use and that the client carried over unchanged.
func dropUnused(new, old *corev1.Service) {
	ns, os := &new.Spec, &old.Spec
	if NeedsClusterIP(old) && !NeedsClusterIP(new) && ns.ClusterIP == os.ClusterIP &&
		apiequality.Semantic.DeepEqual(ns.ClusterIPs, os.ClusterIPs) {
		ns.ClusterIP, ns.ClusterIPs, ns.IPFamilies, ns.IPFamilyPolicy = "", nil, nil, nil
	}
	if NeedsNodePort(old) && !NeedsNodePort(new) && sameNodePorts(ns.Ports, os.Ports) {
		ports := append([]corev1.ServicePort(nil), ns.Ports...)
		for i := range ports {
			ports[i].NodePort = 0
		}
		ns.Ports = ports
	}
	if NeedsHealthCheckPort(old) && !NeedsHealthCheckPort(new) && ns.HealthCheckNodePort == os.HealthCheckNodePort {
		ns.HealthCheckNodePort = 0
	}
	isLB := func(s *corev1.ServiceSpec) bool { return s.Type == corev1.ServiceTypeLoadBalancer }
	if isLB(os) && !isLB(ns) {
		if apiequality.Semantic.DeepEqual(ns.AllocateLoadBalancerNodePorts, os.AllocateLoadBalancerNodePorts) {
			ns.AllocateLoadBalancerNodePorts = nil
		}
		if apiequality.Semantic.DeepEqual(ns.LoadBalancerClass, os.LoadBalancerClass) {
			ns.LoadBalancerClass = nil
		}
	}
	if ReachedFromOutside(old) && !ReachedFromOutside(new) && ns.ExternalTrafficPolicy == os.ExternalTrafficPolicy {
		ns.ExternalTrafficPolicy = ""
	}
}

func sameNodePorts(a, b []corev1.ServicePort) bool {
	collect := func(ports []corev1.ServicePort) map[int32]int {
		out := map[int32]int{}
		for _, p := range ports {
			out[p.NodePort]++
		}
		return out
	}
	return apiequality.Semantic.DeepEqual(collect(a), collect(b))
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func setString[T ~string](p *T, value T) {
	if *p == "" {
		*p = value
	}
}
