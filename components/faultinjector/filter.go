package faultinjector

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	// relayed marks the packets that were held back already.
	relayed = 0x51
	// parts is what a loss is counted in.
	parts    = 1_000_000
	register = 1
)

// Offsets in Ethernet and IP headers.
const (
	etherDestination, etherSource = 0, 6
	ip4Source, ip4Destination     = 12, 16
	ip6Source, ip6Destination     = 8, 24
)

// rule is one match with what becomes of its packets.
type rule []expr.Any

// rules of a direction. Those that were relayed passed all others before. tap is the index of the interface that takes
// what is to be held back; 0 for none.
func rules(p plan, loss float64, ingress bool, tap int) []rule {
	mac, ip4, ip6 := uint32(etherDestination), uint32(ip4Destination), uint32(ip6Destination)
	if ingress {
		mac, ip4, ip6 = etherSource, ip4Source, ip6Source
	}
	drop := &expr.Verdict{Kind: expr.VerdictDrop}
	out := []rule{{&expr.Meta{Key: expr.MetaKeyMARK, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.NativeEndian.PutUint32(relayed)},
		&expr.Verdict{Kind: expr.VerdictAccept}}}
	for _, peer := range p.hardware {
		out = append(out, rule{&expr.Payload{DestRegister: register, Base: expr.PayloadBaseLLHeader, Offset: mac, Len: 6},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: peer}, drop})
	}
	for _, peer := range p.peers {
		offset, protocol := ip4, uint16(unix.ETH_P_IP)
		if peer.Addr().Is6() {
			offset, protocol = ip6, unix.ETH_P_IPV6
		}
		out = append(out, append(within(peer, protocol, offset), drop))
	}
	if loss > 0 {
		out = append(out, rule{&expr.Numgen{Register: register, Modulus: parts, Type: unix.NFT_NG_RANDOM},
			&expr.Byteorder{SourceRegister: register, DestRegister: register, Op: expr.ByteorderHton, Len: 4, Size: 4},
			&expr.Cmp{Op: expr.CmpOpLt, Register: register, Data: binary.BigEndian.AppendUint32(nil, uint32(loss*parts))}, drop})
	}
	if tap != 0 && !ingress {
		out = append(out, rule{&expr.Immediate{Register: register, Data: binaryutil.NativeEndian.PutUint32(uint32(tap))},
			&expr.Dup{RegDev: register, IsRegDevSet: true}, drop})
	}
	return out
}

// within matches packets of a protocol whose address at an offset is in a range.
func within(peer netip.Prefix, protocol uint16, offset uint32) rule {
	ip := peer.Addr().AsSlice()
	mask := make([]byte, len(ip))
	for i := range peer.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	size := uint32(len(ip))
	return rule{&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binary.BigEndian.AppendUint16(nil, protocol)},
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: size, Mask: mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: ip}}
}

// install puts the rules in force, until remove.
func (i *Injector) install(tap int) (remove func() error, err error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	// Containers have few processes, whose numbers collide: several injectors share a network namespace.
	name, err := os.Hostname()
	if err != nil {
		name = "q"
	}
	table := conn.AddTable(&nftables.Table{Name: fmt.Sprintf("faults-%s-%d-%p", name, os.Getpid(), i),
		Family: nftables.TableFamilyNetdev})
	priority := nftables.ChainPriorityRef(-10)
	if tap != 0 {
		priority = nftables.ChainPriorityFilter // after all that drop
	}
	for _, hook := range []*nftables.ChainHook{nftables.ChainHookEgress, nftables.ChainHookIngress} {
		ingress := hook == nftables.ChainHookIngress
		name := map[bool]string{true: "ingress", false: "egress"}[ingress]
		chain := conn.AddChain(&nftables.Chain{Name: name, Table: table, Hooknum: hook, Priority: priority,
			Type: nftables.ChainTypeFilter, Device: i.config.Interface})
		for _, r := range rules(i.plan, i.config.Loss, ingress, tap) {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: r})
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, fmt.Errorf("nftables, family netdev with the hook egress (it takes Linux 5.16, and the right "+
			"NET_ADMIN): %w",
			err)
	}
	return func() error {
		conn.DelTable(table)
		return conn.Flush()
	}, nil
}
