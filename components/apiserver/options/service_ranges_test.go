package options

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// TestServiceRanges: those are refused in which the Service kubernetes could not be, or could not be reached.
func TestServiceRanges(t *testing.T) {
	v4, v6 := net.IPv4(192, 0, 2, 1), net.ParseIP("2001:db8::1")
	for _, c := range []struct {
		ranges     string
		config     Config
		advertised net.IP
		want       string // "" if it is fine
	}{
		{"10.0.0.0/29", Config{}, v4, ""},
		{"10.0.0.0/30", Config{}, v4,
			"error determining service IP ranges for primary service cidr: the service cluster IP range must be at least 8 IP " +
				"addresses"},
		{"10.0.0.0/24,fd00::/126", Config{}, v4,
			"for secondary service cidr: the service cluster IP range must be at least 8 IP addresses"},
		{"fd00::/108", Config{}, v4, `service IP family "fd00::/108" must match public address family "192.0.2.1"`},
		{"10.0.0.0/24,fd00::/108", Config{}, v6,
			`service IP family "10.0.0.0/24" must match public address family "2001:db8::1"`},
		{"fd00::/108,10.0.0.0/24", Config{}, v6, ""},
		{"fd00::/108", Config{}, nil, ""},
		{"fd00::/108", Config{EndpointReconciler: EndpointsUnmanaged}, v4, ""},
		{"10.0.0.0/24", Config{KubernetesNodePort: 30443}, v4, ""},
		{"10.0.0.0/24", Config{KubernetesNodePort: -1}, v4,
			"--kubernetes-service-node-port -1 must be between 0 and 65535, inclusive."},
		{"10.0.0.0/24", Config{KubernetesNodePort: 70000}, v4,
			"--kubernetes-service-node-port 70000 must be between 0 and 65535, inclusive."},
		{"10.0.0.0/24", Config{KubernetesNodePort: 443}, v4,
			"kubernetes service node port range 30000-32767 doesn't contain 443"},
	} {
		var ranges []netip.Prefix
		for text := range strings.SplitSeq(c.ranges, ",") {
			ranges = append(ranges, netip.MustParsePrefix(text))
		}
		err := c.config.checkServices(ranges, utilnet.PortRange{Base: 30000, Size: 2768}, c.advertised)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %v, node port %d: %v", c.ranges, c.advertised, c.config.KubernetesNodePort, err)
		}
	}
}

// TestFirstAddress: a server that listens on all addresses is reached by the requested family, if the machine has that.
func TestFirstAddress(t *testing.T) {
	of := func(cidrs ...string) (out []net.Addr) {
		for _, text := range cidrs {
			ip, n, err := net.ParseCIDR(text)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return out
	}
	local := []string{"127.0.0.1/8", "::1/128", "fe80::1/64"}
	for _, c := range []struct {
		all   []net.Addr
		bound net.IP
		want  string
	}{
		{of(append(local, "192.0.2.1/24", "2001:db8::1/64")...), net.IPv4zero, "192.0.2.1"},
		{of(append(local, "192.0.2.1/24", "2001:db8::1/64")...), net.IPv6zero, "2001:db8::1"},
		{of(append(local, "192.0.2.1/24")...), net.IPv6zero, "192.0.2.1"},
		{of(append(local, "2001:db8::1/64", "2001:db8::2/64")...), net.IPv4zero, "2001:db8::1"},
		{of(local...), net.IPv6zero, "127.0.0.1"},
	} {
		if got := firstAddress(c.all, c.bound); got.String() != c.want {
			t.Errorf("%v, bound to %v: %v, want %s", c.all, c.bound, got, c.want)
		}
	}
}
