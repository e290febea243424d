package nodeipam

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"net/netip"
)

// maxSubnets bounds the memory of an allocator; a larger range is used in part.
const maxSubnets = 1 << 16

// allocator hands out equal subnets of one range. It is not safe for concurrent use.
type allocator struct {
	cidr     netip.Prefix
	mask     int
	count    int
	used     []bool
	next     int // where the search starts: a subnet given back is reused as late as possible
	taken    int
	measures measures
}

func newAllocator(cidr netip.Prefix, mask int, m metrics) (*allocator, error) {
	if mask < cidr.Bits() || mask > cidr.Addr().BitLen() {
		return nil, fmt.Errorf("node mask size /%d doesn't fit into cluster CIDR %s", mask, cidr)
	}
	count := maxSubnets
	if bits := mask - cidr.Bits(); bits < 16 {
		count = 1 << bits
	}
	return &allocator{cidr: cidr.Masked(), mask: mask, count: count, used: make([]bool, count),
		measures: m.of(cidr.Masked(), count)}, nil
}

// allocate returns a free subnet; ok is false if there is none.
func (a *allocator) allocate() (subnet netip.Prefix, ok bool) {
	for i := range a.count {
		at := (a.next + i) % a.count
		if !a.used[at] {
			a.set(at, true)
			a.measures.tries.Observe(float64(i))
			a.next = (at + 1) % a.count
			return a.subnet(at), true
		}
	}
	return netip.Prefix{}, false
}

// set marks a subnet and measures the change, if it is one.
func (a *allocator) set(at int, used bool) {
	if a.used[at] == used {
		return
	}
	a.used[at] = used
	if used {
		a.taken++
		a.measures.allocations.Inc()
	} else {
		a.taken--
		a.measures.releases.Inc()
	}
	a.measures.usage.Set(float64(a.taken) / float64(a.count))
}

// occupy marks all subnets that p touches as used, and release as free. Addresses outside of the range are none of
// the allocator's business.
func (a *allocator) occupy(p netip.Prefix)  { a.mark(p, true) }
func (a *allocator) release(p netip.Prefix) { a.mark(p, false) }

func (a *allocator) mark(p netip.Prefix, used bool) {
	if !a.cidr.Overlaps(p) {
		return
	}
	first, last := 0, a.count-1
	if p.Bits() > a.cidr.Bits() {
		first = a.index(p.Addr())
		last = first
		if wide := a.mask - p.Bits(); wide > 0 {
			last = first + 1<<min(wide, 16) - 1
		}
	}
	for at := first; at <= min(last, a.count-1); at++ {
		a.set(at, used)
	}
}

func (a *allocator) index(addr netip.Addr) int {
	offset := new(big.Int).Sub(number(addr), number(a.cidr.Addr()))
	offset.Rsh(offset, uint(addr.BitLen()-a.mask))
	if !offset.IsInt64() || offset.Int64() >= int64(a.count) {
		return a.count
	}
	return int(offset.Int64())
}

func (a *allocator) subnet(at int) netip.Prefix {
	shift := uint(a.cidr.Addr().BitLen() - a.mask)
	if a.cidr.Addr().Is4() {
		base := a.cidr.Addr().As4()
		n := binary.BigEndian.Uint32(base[:]) + uint32(at)<<shift
		binary.BigEndian.PutUint32(base[:], n)
		return netip.PrefixFrom(netip.AddrFrom4(base), a.mask)
	}
	n := new(big.Int).Lsh(big.NewInt(int64(at)), shift)
	n.Add(n, number(a.cidr.Addr()))
	var bytes [16]byte
	n.FillBytes(bytes[:])
	return netip.PrefixFrom(netip.AddrFrom16(bytes), a.mask)
}

func number(addr netip.Addr) *big.Int { return new(big.Int).SetBytes(addr.AsSlice()) }
