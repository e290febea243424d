package proxy

import (
	"net"
	"strconv"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/internal/fixedflag"
)

// addModeFlags adds flags of the modes iptables and ipvs. They are checked for their type and mean nothing, as they do
// to upstream in the mode nftables.
func addModeFlags(fs *pflag.FlagSet) {
	const usage = "Means nothing in the mode nftables."
	fs.Int32("iptables-masquerade-bit", 14, usage)
	fs.Bool("iptables-localhost-nodeports", true, usage)
	for _, name := range []string{"iptables-sync-period", "ipvs-sync-period", "iptables-min-sync-period",
		"ipvs-min-sync-period", "ipvs-tcp-timeout", "ipvs-tcpfin-timeout", "ipvs-udp-timeout"} {
		fs.Duration(name, 0, usage)
	}
	fs.String("ipvs-scheduler", "", usage)
	fs.StringSlice("ipvs-exclude-cidrs", nil, usage)
	fs.Bool("ipvs-strict-arp", false, usage)
}

func addFixedFlags(fs *pflag.FlagSet) {
	fixedflag.Add(fs, map[string]fixedflag.Flag{
		"show-hidden-metrics-for-version": {Kind: "string", Allowed: []string{""}, Why: "no metrics are hidden"},
		"init-only": {Kind: "bool", Allowed: []string{"false"},
			Why: "this kube-proxy needs the same privileges all the time"},
	})
}

// portFlag is a deprecated flag for the port of an address that has none; 0 is no address.
func portFlag(fs *pflag.FlagSet, to *string, name, otherwise string) {
	fs.Func(name, "The port, "+otherwise+" by default; 0 serves nothing.", func(text string) error {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return err
		}
		*to = strconv.FormatUint(port, 10)
		return nil
	})
	_ = fs.MarkDeprecated(name, "use the flag of the address instead")
}

// serveAt is the address with the port of the deprecated flag, if it has none itself.
func serveAt(address, port, otherwise string) string {
	switch {
	case port == "0":
		return ""
	case port == "":
		return withPort(address, otherwise)
	}
	if host, before, err := net.SplitHostPort(address); err == nil && before == otherwise {
		return net.JoinHostPort(host, port)
	}
	return withPort(address, port)
}
