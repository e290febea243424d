package options

import "net"

// Advertised is where clients in the cluster reach a server that listens on bound: the address that the configuration
// names, else bound's own, else this machine's first. There is no address where only the loopback is listened on,
// unless the configuration asks for it.
func (c *Config) Advertised(bound net.Addr) (ip net.IP, port int) {
	ip = c.AdvertiseAddress
	address, ok := bound.(*net.TCPAddr)
	if !ok {
		return ip, 0
	}
	if ip == nil {
		ip = address.IP
	}
	if ip.IsUnspecified() || ip.IsLoopback() && c.AdvertiseAddress == nil {
		ip = c.MachineAddress()
	}
	if ip.IsLoopback() && c.AdvertiseAddress == nil {
		ip = nil
	}
	return ip, address.Port
}

// MachineAddress is an address of this machine of the family of BindAddress, for servers that listen on all of them.
func (c *Config) MachineAddress() net.IP {
	addresses, _ := net.InterfaceAddrs()
	return firstAddress(addresses, c.BindAddress) // a listener would call each wildcard the one of IPv6
}

// firstAddress is the first that others can reach, if there is one of the same family as bound; else the loopback's.
func firstAddress(all []net.Addr, bound net.IP) net.IP {
	out := net.IPv4(127, 0, 0, 1)
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		if (n.IP.To4() == nil) == (bound.To4() == nil) {
			return n.IP
		}
		if out.IsLoopback() {
			out = n.IP
		}
	}
	return out
}
