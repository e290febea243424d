package cloudprovider

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/cloudprovider/forward"
	"quintet.dev/quintet/components/cloudprovider/pool"
	"quintet.dev/quintet/components/cloudprovider/service"
)

// balancers has an address per family for each load balancer. It belongs to the service controller's goroutine.
type balancers struct {
	pool      *pool.Pool
	network   Network
	path      *forward.Path
	addresses map[string][]netip.Addr // by Service, the primary family first
	nodes     map[netip.Addr]bool     // addresses of nodes
}

var _ service.LoadBalancers = (*balancers)(nil)

func newBalancers(prefixes []netip.Prefix, network Network, path *forward.Path) (*balancers, error) {
	b := &balancers{network: network, path: path, addresses: map[string][]netip.Addr{}, nodes: map[netip.Addr]bool{}}
	for _, prefix := range prefixes {
		if err := network.Contains(prefix); err != nil {
			return nil, err
		}
	}
	var err error
	b.pool, err = pool.New(prefixes, func(address netip.Addr) bool {
		return network.Reserved(address) || b.nodes[address]
	})
	if err != nil {
		return nil, fmt.Errorf("--address-pool: %w", err)
	}
	return b, nil
}

// Adopt implements service.LoadBalancers: a Service keeps the addresses of its status. Where two have the same one, the
// first of them does.
func (b *balancers) Adopt(all []*v1.Service) {
	for _, svc := range all {
		key := svc.Namespace + "/" + svc.Name
		for _, ingress := range svc.Status.LoadBalancer.Ingress {
			address, err := netip.ParseAddr(ingress.IP)
			if err != nil || b.pool.Reserve(key, address) != nil {
				continue // the Service gets another one when it is synced
			}
			b.addresses[key] = append(b.addresses[key], address)
		}
		if len(b.addresses[key]) > 0 {
			b.path.Set(key, balancer(svc, b.addresses[key]))
		}
	}
}

// Exists implements service.LoadBalancers.
func (b *balancers) Exists(key string) bool { return len(b.addresses[key]) > 0 }

// Ensure implements service.LoadBalancers.
func (b *balancers) Ensure(key string, svc *v1.Service) (v1.LoadBalancerStatus, error) {
	addresses, err := b.assign(key, svc)
	if err != nil {
		return v1.LoadBalancerStatus{}, err
	}
	b.addresses[key] = addresses
	b.path.Set(key, balancer(svc, addresses))
	var status v1.LoadBalancerStatus
	for _, address := range addresses {
		mode := v1.LoadBalancerIPModeVIP
		status.Ingress = append(status.Ingress, v1.LoadBalancerIngress{IP: address.String(), IPMode: &mode})
	}
	return status, nil
}

// assign gives a Service an address of each of its families. It keeps what it can of what the Service has; in case of
// an error that is all.
func (b *balancers) assign(key string, svc *v1.Service) ([]netip.Addr, error) {
	families, requested, err := b.request(svc)
	if err != nil {
		return nil, err
	}
	before := b.addresses[key]
	var after []netip.Addr
	for _, family := range families {
		address, err := b.assignOne(key, family, requested, before)
		if err != nil {
			b.release(after, before)
			return nil, err
		}
		after = append(after, address)
	}
	b.release(before, after)
	return after, nil
}

func (b *balancers) assignOne(
	key string, family v1.IPFamily, requested netip.Addr, before []netip.Addr,
) (netip.Addr, error) {
	if requested.IsValid() && pool.Family(requested) == family {
		if err := b.pool.Reserve(key, requested); err != nil {
			return netip.Addr{}, fmt.Errorf("spec.loadBalancerIP: %w", err)
		}
		return requested, nil
	}
	i := slices.IndexFunc(before, func(a netip.Addr) bool { return pool.Family(a) == family })
	if i >= 0 && b.pool.Reserve(key, before[i]) == nil {
		return before[i], nil
	}
	return b.pool.Allocate(key, family)
}

// release gives back the addresses that are not kept.
func (b *balancers) release(addresses, kept []netip.Addr) {
	for _, address := range addresses {
		if !slices.Contains(kept, address) {
			b.pool.Release(address)
		}
	}
}

// request returns the families that a Service gets addresses of, and the address that it requests, if any.
func (b *balancers) request(svc *v1.Service) ([]v1.IPFamily, netip.Addr, error) {
	wanted := svc.Spec.IPFamilies
	if len(wanted) == 0 {
		wanted = []v1.IPFamily{v1.IPv4Protocol}
	}
	prefers := svc.Spec.IPFamilyPolicy != nil && *svc.Spec.IPFamilyPolicy == v1.IPFamilyPolicyPreferDualStack
	var served []v1.IPFamily
	var missing error
	for _, family := range wanted {
		if b.pool.Serves(family) {
			served = append(served, family)
		} else {
			missing = errors.Join(missing, fmt.Errorf("no address pool of family %s", family))
		}
	}
	if missing != nil && (len(served) == 0 || !prefers) {
		return nil, netip.Addr{}, missing
	}
	if svc.Spec.LoadBalancerIP == "" {
		return served, netip.Addr{}, nil
	}
	requested, err := netip.ParseAddr(svc.Spec.LoadBalancerIP)
	if err != nil {
		return nil, netip.Addr{}, fmt.Errorf("spec.loadBalancerIP: %w", err)
	}
	requested = requested.Unmap()
	if !slices.Contains(served, pool.Family(requested)) {
		return nil, netip.Addr{}, fmt.Errorf("spec.loadBalancerIP: %s is not of a family of the Service", requested)
	}
	return served, requested, nil
}

// Delete implements service.LoadBalancers.
func (b *balancers) Delete(key string) {
	b.path.Delete(key)
	b.release(b.addresses[key], nil)
	delete(b.addresses, key)
}

// UpdateNodes implements service.LoadBalancers. A node elsewhere than on the link takes no packets.
func (b *balancers) UpdateNodes(all, fit []*v1.Node) {
	b.nodes = map[netip.Addr]bool{}
	var known []netip.Addr
	for _, node := range all {
		for _, address := range b.internal(node) {
			b.nodes[address] = true
			known = append(known, address)
		}
	}
	var nodes []forward.Node
	for _, node := range fit {
		if addresses := b.internal(node); len(addresses) > 0 {
			nodes = append(nodes, forward.Node{Name: node.Name, Addresses: addresses})
		}
	}
	b.path.SetNodes(nodes, known)
}

// internal are the addresses of a node on the link, the primary one first.
func (b *balancers) internal(node *v1.Node) []netip.Addr {
	var addresses []netip.Addr
	for _, address := range node.Status.Addresses {
		ip, err := netip.ParseAddr(address.Address)
		if err == nil && address.Type == v1.NodeInternalIP && b.network.OnLink(ip.Unmap()) {
			addresses = append(addresses, ip.Unmap())
		}
	}
	return addresses
}

// balancer is what the data path needs to know of a Service.
func balancer(svc *v1.Service, addresses []netip.Addr) forward.Balancer {
	result := forward.Balancer{
		Addresses: slices.Clone(addresses),
		Sticky:    svc.Spec.SessionAffinity == v1.ServiceAffinityClientIP,
	}
	if svc.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal {
		result.HealthPort = uint16(svc.Spec.HealthCheckNodePort)
	}
	return result
}
