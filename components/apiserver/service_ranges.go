package apiserver

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/discovery"
)

// serviceRanges are the cluster IPs and node ports of Services.
type serviceRanges struct {
	clusterIPs []netip.Prefix
	nodePorts  utilnet.PortRange
}

// primary is the family that Services have unless they ask for another.
func (r serviceRanges) primary() corev1.IPFamily {
	if r.clusterIPs[0].Addr().Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// serverIP is the cluster IP of the Service kubernetes.
func (r serviceRanges) serverIP() netip.Addr { return r.clusterIPs[0].Addr().Next() }

// within is the address of that Service, for clients in the range of services.
func (r serviceRanges) within() discovery.Within {
	address := netip.AddrPortFrom(r.serverIP(), bootstrap.ServicePort)
	return discovery.Within{Range: r.clusterIPs[0], Address: address.String()}
}
