package hollow

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// subnet is a range of pod addresses, and the last one that was given away.
type subnet struct {
	prefix netip.Prefix
	last   netip.Addr
}

// SetPodCIDRs implements runtime.Runtime.
func (e *Engine) SetPodCIDRs(_ context.Context, cidrs []string) error {
	subnets := make([]*subnet, 0, len(cidrs))
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return fmt.Errorf("pod CIDR %q: %w", cidr, err)
		}
		prefix = prefix.Masked()
		subnets = append(subnets, &subnet{prefix: prefix, last: prefix.Addr().Next()}) // the gateway's
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subnets = subnets
	return nil
}

// allocateAll takes an address of each family.
func (e *Engine) allocateAll() ([]string, error) {
	if len(e.subnets) == 0 {
		return nil, errors.New("pod network is not ready: the node has no pod CIDR yet")
	}
	sandbox := runtime.Sandbox{}
	for _, s := range e.subnets {
		ip, err := e.allocate(s)
		if err != nil {
			e.release(&sandbox)
			return nil, err
		}
		sandbox.IPs = append(sandbox.IPs, ip.String())
	}
	return sandbox.IPs, nil
}

// allocate takes the next free address, round and round, so that addresses are not reused at once.
func (e *Engine) allocate(s *subnet) (netip.Addr, error) {
	first := s.last
	for {
		s.last = s.last.Next()
		if !s.prefix.Contains(s.last) {
			s.last = s.prefix.Addr().Next().Next()
		}
		if !e.inUse[s.last] && s.prefix.Contains(s.last) {
			e.inUse[s.last] = true
			return s.last, nil
		}
		if s.last == first {
			return netip.Addr{}, fmt.Errorf("no free address in %s", s.prefix)
		}
	}
}

func (e *Engine) release(s *runtime.Sandbox) {
	for _, ip := range s.IPs {
		if addr, err := netip.ParseAddr(ip); err == nil {
			delete(e.inUse, addr)
		}
	}
}
