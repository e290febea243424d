package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// leastAddressBits is what a range of cluster IPs must leave open, as upstream has it: eight addresses.
const leastAddressBits = 3

// checkServices refuses ranges in which the Service kubernetes has no place. advertised is where its endpoint is; nil is unknown.
func (c *Config) checkServices(ranges []netip.Prefix, ports utilnet.PortRange, advertised net.IP) error {
	for i, r := range ranges {
		if r.Addr().BitLen()-r.Bits() < leastAddressBits {
			which := [...]string{"primary", "secondary"}[min(i, 1)]
			return fmt.Errorf("--service-cluster-ip-range: error determining service IP ranges for %s service cidr: the service cluster IP range must be at least %d IP addresses", which, 1<<leastAddressBits)
		}
	}
	port := c.KubernetesNodePort
	var errs []error
	if port < 0 || port > 65535 {
		errs = append(errs, fmt.Errorf("--kubernetes-service-node-port %v must be between 0 and 65535, inclusive. If 0, the Kubernetes master service will be of type ClusterIP", port))
	}
	if port > 0 && !ports.Contains(port) {
		errs = append(errs, fmt.Errorf("kubernetes service node port range %v doesn't contain %v", ports, port))
	}
	if advertised != nil && c.EndpointReconciler != EndpointsByNobody && ranges[0].Addr().Is4() != (advertised.To4() != nil) {
		errs = append(errs, fmt.Errorf("service IP family %q must match public address family %q", ranges[0], advertised))
	}
	return errors.Join(errs...)
}
