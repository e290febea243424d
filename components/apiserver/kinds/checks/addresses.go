package checks

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// NonSpecialIP refuses addresses that can't be those of an endpoint.
func NonSpecialIP(a string, path *field.Path) field.ErrorList {
	ip := netutils.ParseIPSloppy(a)
	if ip == nil {
		return nil
	}
	var errs field.ErrorList
	for _, c := range []struct {
		is  bool
		msg string
	}{
		{ip.IsUnspecified(), fmt.Sprintf("may not be unspecified (%v)", a)},
		{ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if c.is {
			errs = append(errs, field.Invalid(path, a, c.msg))
		}
	}
	return errs
}
