package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// longestInterfaceName is the kernel's limit, in bytes.
const longestInterfaceName = 15

// check names what can't be honoured, in the order of upstream's file.
func (c *Config) check() error {
	var errs []error
	bad := func(what string, format string, args ...any) {
		errs = append(errs, fmt.Errorf(what+": "+format, args...))
	}
	if err := checkGates(c.FeatureGates); err != nil {
		errs = append(errs, err)
	}
	if c.QPS < 0 || c.Burst < 0 {
		bad("clientConnection", "qps %v and burst %d may not be negative", c.QPS, c.Burst)
	}
	if net.ParseIP(c.BindAddress) == nil {
		bad("bindAddress", "%q is no IP address", c.BindAddress)
	}
	for _, of := range []struct{ what, address string }{
		{"healthzBindAddress", c.HealthzAddress}, {"metricsBindAddress", c.MetricsAddress},
	} {
		if err := checkHostPort(of.address); err != nil {
			bad(of.what, "%w", err)
		}
	}
	if c.Mode != "" && c.Mode != "nftables" {
		bad("mode", "%q is not supported; this kube-proxy has nftables alone", c.Mode)
	}
	if c.MasqueradeBit < 0 || c.MasqueradeBit > 31 {
		bad("nftables.masqueradeBit", "%d is not between 0 and 31", c.MasqueradeBit)
	}
	if c.SyncPeriod <= 0 {
		bad("nftables.syncPeriod", "%v is not greater than 0", c.SyncPeriod)
	}
	if c.MinSyncPeriod < 0 || c.MinSyncPeriod > c.SyncPeriod {
		bad("nftables.minSyncPeriod", "%v is not between 0 and syncPeriod, %v", c.MinSyncPeriod, c.SyncPeriod)
	}
	if err := c.checkLocalTraffic(); err != nil {
		errs = append(errs, err)
	}
	for _, text := range c.NodePorts {
		if _, err := netip.ParsePrefix(text); err != nil && (text != "primary" || len(c.NodePorts) > 1) {
			bad("nodePortAddresses", "%q is no CIDR, nor \"primary\" alone", text)
		}
	}
	if c.OOMScoreAdj < -1000 || c.OOMScoreAdj > 1000 {
		bad("oomScoreAdj", "%d is not between -1000 and 1000", c.OOMScoreAdj)
	}
	if err := c.Conntrack.check(); err != nil {
		errs = append(errs, err)
	}
	if c.ResyncPeriod <= 0 {
		bad("configSyncPeriod", "%v is not greater than 0", c.ResyncPeriod)
	}
	return errors.Join(errs...)
}

// checkHostPort checks the address of a server; there is none at "".
func checkHostPort(address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) == nil {
		return fmt.Errorf("%q is not of the form IP:port", address)
	}
	if number, err := strconv.Atoi(port); err != nil || number < 1 || number > 65535 {
		return fmt.Errorf("%q: the port is not between 1 and 65535", address)
	}
	return nil
}

// checkLocalTraffic checks all that tells local traffic, whether the mode uses it or not.
func (c *Config) checkLocalTraffic() error {
	var errs []error
	for _, name := range []struct{ what, value string }{
		{"detectLocal.bridgeInterface", c.PodBridge}, {"detectLocal.interfaceNamePrefix", c.PodPrefix},
	} {
		if len(name.value) > longestInterfaceName || strings.ContainsAny(name.value, "\"*/: \t\n") {
			errs = append(errs, fmt.Errorf("%s: %q is no name of an interface: those have no space and none of \"*/: in "+
				"them, and at most %d characters", name.what, name.value, longestInterfaceName))
		}
	}
	if c.ClusterCIDR != "" {
		families := map[bool]bool{}
		ranges := strings.Split(c.ClusterCIDR, ",")
		for _, text := range ranges {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("clusterCIDR: %q is no CIDR", text))
				continue
			}
			families[prefix.Addr().Is4()] = true
		}
		if len(errs) == 0 && len(families) != len(ranges) {
			errs = append(errs, fmt.Errorf("clusterCIDR: %q has more than one range of a family", c.ClusterCIDR))
		}
	}
	if len(errs) == 0 {
		_, _, err := localTraffic(c, v1.IPv4Protocol, nil)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c Conntrack) check() error {
	var errs []error
	for _, of := range []struct {
		field string
		value int32
	}{{"maxPerCore", c.MaxPerCore}, {"min", c.Min}} {
		if of.value < 0 {
			errs = append(errs, fmt.Errorf("conntrack.%s: %d is negative", of.field, of.value))
		}
	}
	for _, of := range []struct {
		field string
		value time.Duration
	}{
		{"tcpEstablishedTimeout", c.TCPEstablished}, {"tcpCloseWaitTimeout", c.TCPCloseWait},
		{"udpTimeout", c.UDP}, {"udpStreamTimeout", c.UDPStream},
	} {
		if of.value < 0 {
			errs = append(errs, fmt.Errorf("conntrack.%s: %v is negative", of.field, of.value))
		}
	}
	return errors.Join(errs...)
}
