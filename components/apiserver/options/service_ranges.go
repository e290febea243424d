package options

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// minServiceHostBits is what a range of cluster IPs must leave open, as upstream has it: eight addresses.
const minServiceHostBits = 3

// ServiceRanges are the cluster IPs and node ports that Services may take. advertised is the address of the endpoint of
// the Service kubernetes; nil is unknown. It fails for what can't be read, and for ranges in which that Service has no
// place.
func (c *Config) ServiceRanges(advertised net.IP) (clusterIPs []netip.Prefix, nodePorts utilnet.PortRange, err error) {
	for text := range strings.SplitSeq(c.ServiceClusterIPRange, ",") {
		r, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, nodePorts, fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
		clusterIPs = append(clusterIPs, r.Masked())
	}
	ports, err := utilnet.ParsePortRange(c.ServiceNodePortRange)
	if err != nil {
		return nil, nodePorts, fmt.Errorf("--service-node-port-range: %w", err)
	}
	return clusterIPs, *ports, c.checkServices(clusterIPs, *ports, advertised)
}

// checkServices refuses ranges in which the Service kubernetes has no place.
func (c *Config) checkServices(ranges []netip.Prefix, ports utilnet.PortRange, advertised net.IP) error {
	for i, r := range ranges {
		if r.Addr().BitLen()-r.Bits() < minServiceHostBits {
			which := [...]string{"primary", "secondary"}[min(i, 1)]
			return fmt.Errorf("--service-cluster-ip-range: error determining service IP ranges for %s service cidr: "+
				"the service cluster IP range must be at least %d IP addresses", which, 1<<minServiceHostBits)
		}
	}
	port := c.KubernetesNodePort
	var errs []error
	if port < 0 || port > 65535 {
		errs = append(errs, fmt.Errorf("--kubernetes-service-node-port %v must be between 0 and 65535, inclusive. "+
			"If 0, the Kubernetes master service will be of type ClusterIP", port))
	}
	if port > 0 && !ports.Contains(port) {
		errs = append(errs, fmt.Errorf("kubernetes service node port range %v doesn't contain %v", ports, port))
	}
	reconciled := advertised != nil && c.EndpointReconciler != EndpointsUnmanaged
	if reconciled && ranges[0].Addr().Is4() != (advertised.To4() != nil) {
		errs = append(errs, fmt.Errorf("service IP family %q must match public address family %q",
			ranges[0], advertised))
	}
	return errors.Join(errs...)
}
