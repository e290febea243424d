package options

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// PeerAccess is how this API server and the others of its cluster reach each other.
type PeerAccess struct {
	CAFile        string // authorities of the others' serving certificates; without it no request is passed on to them
	AdvertiseIP   string // or a host name; the advertised address if empty
	AdvertisePort string // the port that is served if empty
}

func (p *PeerAccess) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.CAFile, "peer-ca-file", "",
		"Authorities of other API servers' serving certificates. Requests for what this server doesn't have are "+
			"then passed on to those that do.")
	fs.StringVar(&p.AdvertiseIP, "peer-advertise-ip", "",
		"Address, or host name, at which other API servers reach this one; by default the advertised address.")
	fs.StringVar(&p.AdvertisePort, "peer-advertise-port", "",
		"Port at which other API servers reach this one; by default that of --secure-port.")
}

// Check returns what can't be, given whether servers know of each other at all (on), and whether this one has a client
// certificate for the others.
func (p *PeerAccess) Check(on bool, hasCertificate bool) error {
	for flag, given := range map[string]bool{
		"peer-ca-file": p.CAFile != "", "peer-advertise-ip": p.AdvertiseIP != "",
		"peer-advertise-port": p.AdvertisePort != "",
	} {
		if given && !on {
			return fmt.Errorf("--%s requires UnknownVersionInteroperabilityProxy feature to be turned on", flag)
		}
	}
	if p.CAFile != "" && !hasCertificate {
		return errors.New("--peer-ca-file needs --proxy-client-cert-file and --proxy-client-key-file, " +
			"by which others know that a request comes from an API server")
	}
	if port, err := strconv.ParseUint(cmp.Or(p.AdvertisePort, "1"), 10, 16); err != nil || port == 0 {
		return fmt.Errorf("--peer-advertise-port %q is no port", p.AdvertisePort)
	}
	isName := len(validation.IsDNS1123Subdomain(strings.ToLower(p.AdvertiseIP))) == 0
	if p.AdvertiseIP != "" && net.ParseIP(p.AdvertiseIP) == nil && !isName {
		return fmt.Errorf("--peer-advertise-ip %q is neither an address nor a host name", p.AdvertiseIP)
	}
	return nil
}
