package join

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestChoose(t *testing.T) {
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	v4, v4b, v6 := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for name, test := range map[string]struct {
		families []corev1.IPFamily
		ips      []netip.Addr
		want     []string
	}{
		"IPv4":                  {[]corev1.IPFamily{four}, []netip.Addr{v4b, v4, v6}, []string{"10.0.0.2"}},
		"both":                  {[]corev1.IPFamily{four, six}, []netip.Addr{v4, v6}, []string{"10.0.0.2", "fd00::1"}},
		"IPv6, reached by IPv4": {[]corev1.IPFamily{six}, []netip.Addr{v4, v6}, []string{"fd00::1"}},
		"none":                  {[]corev1.IPFamily{six}, []netip.Addr{v4}, nil},
	} {
		got, err := choose(v4, test.ips, test.families)
		if !slices.Equal(got, test.want) || (err == nil) != (test.want != nil) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
