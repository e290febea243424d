package kernel

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
)

const (
	etherARP  = 0x0806
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd

	arpRequest, arpReply = 1, 2

	icmpv6                             = 58
	neighborSolicit, neighborAdvert    = 135, 136
	isRouter, isSolicited, isOverride  = 0x80, 0x40, 0x20
	targetHardwareAddress              = 2
	etherSize, arpSize, ipv6HeaderSize = 14, 28, 40
	advertSize                         = 32
)

var (
	broadcastMAC = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	allNodes     = netip.IPv6LinkLocalAllNodes()
)

// query sends an ARP request or neighbor solicitation for an address.
type query struct {
	target netip.Addr
	from   netip.Addr // may be unspecified
	mac    net.HardwareAddr
}

// parse returns the query in a frame.
func parse(frame []byte) (query, bool) {
	if len(frame) < etherSize {
		return query{}, false
	}
	body := frame[etherSize:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherARP:
		return parseARP(body)
	case etherIPv6:
		return parseSolicitation(frame[6:12], body)
	}
	return query{}, false
}

func parseARP(b []byte) (query, bool) {
	if len(b) < arpSize || binary.BigEndian.Uint16(b) != 1 || binary.BigEndian.Uint16(b[2:]) != etherIPv4 ||
		b[4] != 6 || b[5] != 4 || binary.BigEndian.Uint16(b[6:]) != arpRequest {
		return query{}, false
	}
	return query{
		target: netip.AddrFrom4([4]byte(b[24:28])), from: netip.AddrFrom4([4]byte(b[14:18])),
		mac: slices.Clone(net.HardwareAddr(b[8:14])),
	}, true
}

func parseSolicitation(mac net.HardwareAddr, b []byte) (query, bool) {
	const target = ipv6HeaderSize + 8
	// A hop limit of 255 is proof that no router passed it on.
	if len(b) < target+16 || b[6] != icmpv6 || b[7] != 255 || b[ipv6HeaderSize] != neighborSolicit {
		return query{}, false
	}
	return query{
		target: netip.AddrFrom16([16]byte(b[target : target+16])), from: netip.AddrFrom16([16]byte(b[8:24])),
		mac: slices.Clone(mac),
	}, true
}

// answer is the reply frame that maps the address to mac.
func answer(q query, mac net.HardwareAddr) []byte {
	if q.target.Is4() {
		return arp(arpReply, mac, q.target, q.mac, q.from)
	}
	if q.from.IsUnspecified() { // a host that wants to take the address itself
		return advertisement(mac, q.target, broadcastOf(allNodes), allNodes, isRouter|isOverride)
	}
	return advertisement(mac, q.target, q.mac, q.from, isRouter|isSolicited|isOverride)
}

// announcement is the frame that tells all that mac has an address; caches that hold another one are corrected.
func announcement(address netip.Addr, mac net.HardwareAddr) []byte {
	if address.Is4() {
		return arp(arpRequest, mac, address, broadcastMAC, address)
	}
	return advertisement(mac, address, broadcastOf(allNodes), allNodes, isRouter|isOverride)
}

// broadcastOf is the hardware address of an IPv6 multicast group.
func broadcastOf(group netip.Addr) net.HardwareAddr {
	bytes := group.As16()
	return append(net.HardwareAddr{0x33, 0x33}, bytes[12:]...)
}

// solicitedNode is the multicast group that is asked for an IPv6 address.
func solicitedNode(address netip.Addr) netip.Addr {
	bytes, group := address.As16(), netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(group[13:], bytes[13:])
	return netip.AddrFrom16(group)
}

func ethernet(to, from net.HardwareAddr, kind uint16) []byte {
	frame := append(append(make([]byte, 0, 128), to...), from...)
	return binary.BigEndian.AppendUint16(frame, kind)
}

func arp(operation uint16, mac net.HardwareAddr, address netip.Addr, toMAC net.HardwareAddr, to netip.Addr) []byte {
	frame := ethernet(toMAC, mac, etherARP)
	frame = binary.BigEndian.AppendUint16(frame, 1)
	frame = binary.BigEndian.AppendUint16(frame, etherIPv4)
	frame = append(frame, 6, 4)
	frame = binary.BigEndian.AppendUint16(frame, operation)
	frame = append(append(frame, mac...), address.AsSlice()...)
	return append(append(frame, toMAC...), to.AsSlice()...)
}

// advertisement has the address itself as its source.
func advertisement(mac net.HardwareAddr, address netip.Addr, toMAC net.HardwareAddr, to netip.Addr, flags byte) []byte {
	message := []byte{neighborAdvert, 0, 0, 0, flags, 0, 0, 0}
	message = append(message, address.AsSlice()...)
	message = append(append(message, targetHardwareAddress, 1), mac...)

	pseudo := append(address.AsSlice(), to.AsSlice()...)
	pseudo = append(pseudo, 0, 0, 0, advertSize, 0, 0, 0, icmpv6)
	binary.BigEndian.PutUint16(message[2:], checksum(append(pseudo, message...)))

	frame := ethernet(toMAC, mac, etherIPv6)
	frame = append(frame, 0x60, 0, 0, 0, 0, advertSize, icmpv6, 255)
	frame = append(append(frame, address.AsSlice()...), to.AsSlice()...)
	return append(frame, message...)
}

// checksum is the Internet's, of an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
