package cluster

import (
	"fmt"
	"net/netip"
)

// The ranges of pods and Services, as kubeadm and kind have them; the addresses exist only inside the nodes.
const (
	podCIDR     = "10.244.0.0/16"
	serviceCIDR = "10.96.0.0/16"

	clusterDomain = "cluster.local"
	dnsServiceIP  = 10 // the number, in the range of Services, of the address of cluster DNS
)

// nodePodCIDR is the range of the i-th node, for a cluster in which no controller allocates it.
func nodePodCIDR(i int) string { return fmt.Sprintf("10.244.%d.0/24", i) }

// serviceIP is the n-th address of the range of Services.
func serviceIP(n int) string {
	ip := netip.MustParsePrefix(serviceCIDR).Addr()
	for range n {
		ip = ip.Next()
	}
	return ip.String()
}
