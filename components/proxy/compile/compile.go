// Package compile translates Services and their EndpointSlices into the ports of one node. It is pure:
// the same objects and node give the same model.
package compile

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/proxy/model"
)

// Node is what the choice of endpoints depends on.
type Node struct{ Name, Zone string }

// NodeOf reads a Node object.
func NodeOf(node *v1.Node) Node {
	return Node{Name: node.Name, Zone: node.Labels[v1.LabelTopologyZone]}
}

// defaultAffinitySeconds is for how long a client stays with its endpoint where the Service does not say.
const defaultAffinitySeconds = v1.DefaultClientIPServiceAffinitySeconds

// serviceProxyNameLabel names the proxy that a Service and its EndpointSlices are left to.
const serviceProxyNameLabel = "service.kubernetes.io/service-proxy-name"

// Compile returns the ports of a Service in each of its IP families, sorted by key, as the cluster's default proxy
// treats them. A Service that needs no proxy, as it is headless, of type ExternalName or left to another proxy, has
// none. See https://kubernetes.io/docs/reference/networking/virtual-ips/.
func Compile(svc *v1.Service, slices []*discoveryv1.EndpointSlice, node Node) []model.ServicePort {
	return compileFor(svc, slices, node, "")
}

func compileFor(
	svc *v1.Service, slices []*discoveryv1.EndpointSlice, node Node, proxyName string,
) []model.ServicePort {
	if !proxied(svc, proxyName) {
		return nil
	}
	slices = watchedSlices(slices, proxyName)
	var ports []model.ServicePort
	for _, clusterIP := range clusterIPs(svc) {
		for i := range svc.Spec.Ports {
			ports = append(ports, compilePort(svc, &svc.Spec.Ports[i], clusterIP, slices, node))
		}
	}
	sortPorts(ports)
	return ports
}

// proxied tells whether the proxy of a name is to carry the Service's traffic.
func proxied(svc *v1.Service, proxyName string) bool {
	return watched(svc.Labels, proxyName) && svc.Spec.Type != v1.ServiceTypeExternalName &&
		svc.Spec.ClusterIP != v1.ClusterIPNone && svc.Spec.ClusterIP != ""
}

// watched tells whether a proxy reads the Services and EndpointSlices with these labels. The default proxy, whose name
// is empty, reads those that name no proxy. No proxy reads those of headless Services.
func watched(labels map[string]string, proxyName string) bool {
	if _, headless := labels[v1.IsHeadlessService]; headless {
		return false
	}
	name, named := labels[serviceProxyNameLabel]
	return named == (proxyName != "") && name == proxyName
}

func watchedSlices(all []*discoveryv1.EndpointSlice, proxyName string) []*discoveryv1.EndpointSlice {
	var kept []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if watched(slice.Labels, proxyName) {
			kept = append(kept, slice)
		}
	}
	return kept
}

func sortPorts(ports []model.ServicePort) {
	slices.SortFunc(ports, func(a, b model.ServicePort) int { return compareKeys(a.Key, b.Key) })
}

func compareKeys(a, b model.PortKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Family, b.Family), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
}

// clusterIPs are the Service's addresses, at most one of a family.
func clusterIPs(svc *v1.Service) []netip.Addr {
	texts := svc.Spec.ClusterIPs
	if len(texts) == 0 {
		texts = []string{svc.Spec.ClusterIP}
	}
	return addresses(texts)
}

func compilePort(
	svc *v1.Service, port *v1.ServicePort, clusterIP netip.Addr, slices []*discoveryv1.EndpointSlice, node Node,
) model.ServicePort {
	family := familyOf(clusterIP)
	p := model.ServicePort{
		Key: model.PortKey{
			NamespacedName: types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name},
			Port:           port.Name, Protocol: cmp.Or(port.Protocol, v1.ProtocolTCP), Family: family,
		},
		ClusterIP:   clusterIP,
		Port:        uint16(port.Port),
		NodePort:    uint16(port.NodePort),
		ExternalIPs: ofFamily(addresses(svc.Spec.ExternalIPs), family),
	}
	p.LoadBalancerIPs = ofFamily(loadBalancerIPs(svc), family)
	p.SourceRanges, p.SourceRangesSet = sourceRanges(svc, family)
	if svc.Spec.SessionAffinity == v1.ServiceAffinityClientIP {
		p.AffinitySeconds = affinitySeconds(svc)
	}
	p.InternalLocal = deref(svc.Spec.InternalTrafficPolicy, "") == v1.ServiceInternalTrafficPolicyLocal
	external := p.NodePort != 0 || len(p.ExternalIPs) > 0 || len(p.LoadBalancerIPs) > 0
	localPolicy := svc.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal
	p.ExternalLocal = external && localPolicy
	if localPolicy && svc.Spec.Type == v1.ServiceTypeLoadBalancer {
		p.HealthCheckNodePort = uint16(svc.Spec.HealthCheckNodePort)
	}
	all := candidates(slices, port.Name, p.Key.Protocol, family, node)
	p.ClusterEndpoints, p.LocalEndpoints, p.HasAnyEndpoint = choose(all, node)
	if p.InternalLocal && !external {
		p.ClusterEndpoints = nil // no traffic policy needs them
	}
	if !p.InternalLocal && !p.ExternalLocal {
		p.LocalEndpoints = nil // no traffic policy needs them
	}
	return p
}

func affinitySeconds(svc *v1.Service) int {
	if config := svc.Spec.SessionAffinityConfig; config != nil && config.ClientIP != nil {
		return int(deref(config.ClientIP.TimeoutSeconds, defaultAffinitySeconds))
	}
	return int(defaultAffinitySeconds)
}

// loadBalancerIPs are the addresses whose traffic reaches the node as it was sent.
func loadBalancerIPs(svc *v1.Service) []netip.Addr {
	var ips []string
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		if ingress.IPMode == nil || *ingress.IPMode == v1.LoadBalancerIPModeVIP {
			ips = append(ips, ingress.IP)
		}
	}
	return addresses(ips)
}

// sourceRanges are those of one family; set tells whether there are any of either, which excludes all other sources.
func sourceRanges(svc *v1.Service, family v1.IPFamily) (ranges []netip.Prefix, set bool) {
	texts := svc.Spec.LoadBalancerSourceRanges
	if annotation := svc.Annotations[v1.AnnotationLoadBalancerSourceRangesKey]; len(texts) == 0 && annotation != "" {
		texts = strings.Split(annotation, ",")
	}
	for _, text := range texts {
		_, network, err := netutils.ParseCIDRSloppy(strings.TrimSpace(text))
		if err != nil {
			continue // the API server does not admit such
		}
		set = true
		ip, _ := netip.AddrFromSlice(network.IP)
		if bits, _ := network.Mask.Size(); familyOf(ip) == family {
			ranges = append(ranges, netip.PrefixFrom(ip, bits))
		}
	}
	slices.SortFunc(ranges, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(ranges), set
}

// addresses parses what can be parsed, sorted and without duplicates.
func addresses(texts []string) []netip.Addr {
	var ips []netip.Addr
	for _, text := range texts {
		if ip, ok := parseAddr(text); ok {
			ips = append(ips, ip)
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Compact(ips)
}

// parseAddr also reads the numbers with leading zeros that old objects may have, as decimal ones.
func parseAddr(text string) (netip.Addr, bool) {
	ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	return ip.Unmap(), ok
}

func ofFamily(ips []netip.Addr, family v1.IPFamily) []netip.Addr {
	kept := slices.DeleteFunc(ips, func(ip netip.Addr) bool { return familyOf(ip) != family })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

func familyOf(ip netip.Addr) v1.IPFamily {
	if ip.Is4() {
		return v1.IPv4Protocol
	}
	return v1.IPv6Protocol
}
