// Package pool hands out the addresses of load balancers.
package pool

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"

	v1 "k8s.io/api/core/v1"
)

var (
	// ErrExhausted is the error where no address of a family is free.
	ErrExhausted = errors.New("no address is free")
	// ErrInUse is the error where an address belongs to another load balancer.
	ErrInUse = errors.New("address is in use")
)

// maxHostBits bounds how many addresses of a prefix are used: 65,536 are more than a cluster has Services.
const maxHostBits = 16

// Pool holds the owner of each address. It is not safe for concurrent use.
type Pool struct {
	prefixes []netip.Prefix
	reserved func(netip.Addr) bool
	owners   map[netip.Addr]string
}

// New returns a pool of prefixes. Addresses that reserved is true of are never handed out.
func New(prefixes []netip.Prefix, reserved func(netip.Addr) bool) (*Pool, error) {
	if len(prefixes) == 0 {
		return nil, errors.New("no address pool")
	}
	for i, prefix := range prefixes {
		if prefix != prefix.Masked() {
			return nil, fmt.Errorf("address pool %s: use %s, or a longer prefix", prefix, prefix.Masked())
		}
		for _, other := range prefixes[:i] {
			if prefix.Overlaps(other) {
				return nil, fmt.Errorf("address pools %s and %s overlap", other, prefix)
			}
		}
	}
	return &Pool{prefixes: prefixes, reserved: reserved, owners: map[netip.Addr]string{}}, nil
}

// Family is that of an address.
func Family(address netip.Addr) v1.IPFamily {
	if address.Is4() {
		return v1.IPv4Protocol
	}
	return v1.IPv6Protocol
}

// Serves tells whether there are addresses of a family at all.
func (p *Pool) Serves(family v1.IPFamily) bool {
	for _, prefix := range p.prefixes {
		if Family(prefix.Addr()) == family {
			return true
		}
	}
	return false
}

// Reserve gives owner a certain address, which it may have already.
func (p *Pool) Reserve(owner string, address netip.Addr) error {
	if !p.contains(address) {
		return fmt.Errorf("%s is not in an address pool", address)
	}
	if p.reserved(address) {
		return fmt.Errorf("%s is an address of the network itself or of a node", address)
	}
	if other, taken := p.owners[address]; taken && other != owner {
		return fmt.Errorf("%s: %w by Service %s", address, ErrInUse, other)
	}
	p.owners[address] = owner
	return nil
}

// Allocate gives owner a free address of a family: the same one each time, if it is free.
func (p *Pool) Allocate(owner string, family v1.IPFamily) (netip.Addr, error) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(owner))
	for _, prefix := range p.prefixes {
		if Family(prefix.Addr()) != family {
			continue
		}
		size := uint64(1) << min(prefix.Addr().BitLen()-prefix.Bits(), maxHostBits)
		first := hash.Sum64() % size
		for i := range size {
			address := at(prefix.Addr(), (first+i)%size)
			if _, taken := p.owners[address]; taken || p.reserved(address) {
				continue
			}
			p.owners[address] = owner
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("address pools of family %s: %w", family, ErrExhausted)
}

// Release makes an address free.
func (p *Pool) Release(address netip.Addr) { delete(p.owners, address) }

func (p *Pool) contains(address netip.Addr) bool {
	for _, prefix := range p.prefixes {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// at is the n-th address after the first one of a prefix, whose last 16 bits n fits into.
func at(first netip.Addr, n uint64) netip.Addr {
	bytes := first.AsSlice()
	last := len(bytes) - 1
	bytes[last-1] |= byte(n >> 8)
	bytes[last] |= byte(n)
	address, _ := netip.AddrFromSlice(bytes)
	return address
}
