package apiserver

import "strings"

// noAddress is how a flag for an address looks that was not set.
const noAddress = "<nil>"

// filledIn is the command line with what the server found out itself.
func filledIn(b *base) map[string]string {
	out := b.config.CommandLine()
	found := map[string]string{}
	if ip := b.addresses.ip; ip != nil {
		found["advertise-address"], found["external-hostname"] = ip.String(), ip.String()
	}
	if b.config.TLSCertFile == "" && b.config.CertDir != "" {
		found["tls-cert-file"], found["tls-private-key-file"] = ownFiles(b.config.CertDir)
	}
	for name, value := range found {
		if has, ok := out[name]; ok && (has == "" || has == noAddress) {
			out[name] = value
		}
	}
	if _, ok := out["watch-cache-sizes"]; ok {
		out["watch-cache-sizes"] = "[" + strings.Join(b.config.CacheSizes(), ",") + "]"
	}
	return out
}
