package core

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

var serviceParts = api.Parts[*corev1.Service, corev1.ServiceSpec, corev1.ServiceStatus]{
	Spec:   func(s *corev1.Service) *corev1.ServiceSpec { return &s.Spec },
	Status: func(s *corev1.Service) *corev1.ServiceStatus { return &s.Status },
}

func services(deps api.Deps) *api.Kind {
	s := api.Strategy[*corev1.Service]{
		PrepareCreate:       func(_ context.Context, s *corev1.Service) { PrepareServiceCreate(s) },
		PrepareUpdate:       func(_ context.Context, new, old *corev1.Service) { PrepareServiceUpdate(new, old) },
		Validate:            api.OfObject(ValidateService),
		ValidateUpdate:      api.OfChange(ValidateServiceUpdate),
		ValidateName:        validation.NameIsDNSLabel,
		Warnings:            api.OfChange(ServiceWarnings),
		Canonicalize:        CanonicalService,
		CreateOnUpdate:      true,
		UnconditionalUpdate: true,
		ReturnDeleted:       true,
		Reset:               []string{"status"},
	}
	primary := func() corev1.IPFamily { return corev1.IPv4Protocol }
	if deps.StrictServiceNames {
		s.ValidateName = validation.NameIsDNS1035Label
	}
	if deps.Services != nil {
		s.Allocate, primary = deps.Services.Allocate, deps.Services.Primary
	}
	return api.Define(api.Row[*corev1.Service]{
		Name: "Service", Resource: "services", ShortNames: []string{"svc"}, Categories: []string{"all"},
		Prefix:   "services/specs",
		Hub:      corev1.SchemeGroupVersion,
		Default:  DefaultService,
		OnRead:   func(s *corev1.Service) { CompleteService(s, primary()) },
		Strategy: s,
		Status: &api.Strategy[*corev1.Service]{
			PrepareUpdate:  serviceParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateServiceStatus),
			Warnings:       api.OfChange(ServiceStatusWarnings),
			Reset:          []string{"spec"},
			CreateOnUpdate: true,
		},
		Subresources: []api.Subresource{api.Handled("proxy", "create", "delete", "get", "patch", "update")},
		Columns:      ServiceColumns(),
		Row:          ServiceRow,
		Fields: map[string]func(*corev1.Service) string{
			"spec.clusterIP": func(s *corev1.Service) string { return s.Spec.ClusterIP },
			"spec.type":      func(s *corev1.Service) string { return string(s.Spec.Type) },
		},
	})
}

func endpoints() *api.Kind {
	return api.Define(api.Row[*corev1.Endpoints]{
		Name: "Endpoints", Resource: "endpoints", ShortNames: []string{"ep"},
		Prefix:  "services/endpoints",
		Hub:     corev1.SchemeGroupVersion,
		Default: DefaultEndpoints,
		Strategy: api.Strategy[*corev1.Endpoints]{
			Meta:                api.MetaAll,
			Validate:            api.OfObject(ValidateEndpoints),
			ValidateUpdate:      api.OfChange(ValidateEndpointsUpdate),
			Warnings:            api.OfChange(EndpointsWarnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
		Columns: EndpointsColumns(),
		Row:     EndpointsRow,
	})
}

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
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
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
func PrepareServiceCreate(s *corev1.Service) { s.Status = corev1.ServiceStatus{} }

// PrepareServiceUpdate keeps the status, and drops values that the new type has no use for, unless the client changed
// them in this very update.
func PrepareServiceUpdate(new, old *corev1.Service) {
	new.Status = old.Status
	ns, os := &new.Spec, &old.Spec
	if NeedsClusterIP(old) && !NeedsClusterIP(new) {
		if ns.ClusterIP == os.ClusterIP && slices.Equal(ns.ClusterIPs, os.ClusterIPs) {
			ns.ClusterIP, ns.ClusterIPs = "", nil
		}
		if slices.Equal(ns.IPFamilies, os.IPFamilies) {
			ns.IPFamilies = nil
		}
		if ptr.Equal(ns.IPFamilyPolicy, os.IPFamilyPolicy) {
			ns.IPFamilyPolicy = nil
		}
	}
	if takesNodePorts(old) && !takesNodePorts(new) && nodePortSet(os.Ports).IsSuperset(nodePortSet(ns.Ports)) {
		ns.Ports = slices.Clone(ns.Ports)
		for i := range ns.Ports {
			ns.Ports[i].NodePort = 0
		}
	}
	if NeedsHealthCheckPort(old) && !NeedsHealthCheckPort(new) && ns.HealthCheckNodePort == os.HealthCheckNodePort {
		ns.HealthCheckNodePort = 0
	}
	if os.Type == corev1.ServiceTypeLoadBalancer && ns.Type != corev1.ServiceTypeLoadBalancer {
		if ptr.Equal(ns.AllocateLoadBalancerNodePorts, os.AllocateLoadBalancerNodePorts) {
			ns.AllocateLoadBalancerNodePorts = nil
		}
		if ptr.Equal(ns.LoadBalancerClass, os.LoadBalancerClass) {
			ns.LoadBalancerClass = nil
		}
	}
	if ReachedFromOutside(old) && !ReachedFromOutside(new) && ns.ExternalTrafficPolicy == os.ExternalTrafficPolicy {
		ns.ExternalTrafficPolicy = ""
	}
	if ns.Type != corev1.ServiceTypeLoadBalancer {
		new.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

// CanonicalService drops what an external name was once defaulted to and has no use for.
func CanonicalService(s *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.InternalTrafficPolicy = nil
	}
}

// takesNodePorts reports whether ports of such a service may have node ports, allocated or chosen by the client.
func takesNodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

func nodePortSet(ports []corev1.ServicePort) sets.Set[int32] {
	out := sets.New[int32]()
	for _, p := range ports {
		if p.NodePort != 0 {
			out.Insert(p.NodePort)
		}
	}
	return out
}

// FillAllocated fills in allocated values that a client left out of an update.
func FillAllocated(new, old *corev1.Service) {
	if NeedsClusterIP(old) && NeedsClusterIP(new) {
		setString(&new.Spec.ClusterIP, old.Spec.ClusterIP)
		if len(new.Spec.ClusterIPs) == 0 {
			new.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
		}
	}
	if NeedsNodePort(old) && NeedsNodePort(new) {
		named := map[string]int32{}
		for _, p := range old.Spec.Ports {
			named[p.Name] = p.NodePort
		}
		still := nodePortSet(old.Spec.Ports).Intersection(nodePortSet(new.Spec.Ports))
		for i := range new.Spec.Ports {
			p := &new.Spec.Ports[i]
			if had := named[p.Name]; p.NodePort == 0 && !still.Has(had) {
				p.NodePort = had
			}
		}
	}
	if NeedsHealthCheckPort(old) && NeedsHealthCheckPort(new) && new.Spec.HealthCheckNodePort == 0 {
		new.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

// SyncClusterIPs makes clusterIP and clusterIPs agree where a client that knows one of them set or changed only that
// one. old is nil on create.
func SyncClusterIPs(new, old *corev1.Service) {
	ns := &new.Spec
	if old == nil {
		if ns.ClusterIP != "" && len(ns.ClusterIPs) == 0 {
			ns.ClusterIPs = []string{ns.ClusterIP}
		}
		return
	}
	os := &old.Spec
	switch same := slices.Equal(ns.ClusterIPs, os.ClusterIPs); {
	case ns.ClusterIP == os.ClusterIP:
		if len(ns.ClusterIPs) == 0 {
			ns.ClusterIPs = slices.Clone(os.ClusterIPs)
		}
	case same && ns.ClusterIP == "":
		ns.ClusterIPs = nil
	case same:
		ns.ClusterIPs = []string{ns.ClusterIP}
	}
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
