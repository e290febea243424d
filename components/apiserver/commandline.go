package apiserver

import (
	"path/filepath"
	"strings"
)

// noAddress is how a flag for an address looks that nobody set.
const noAddress = "<nil>"

// filledIn is the command line with what the server found out itself.
func (s *Server) filledIn() map[string]string {
	out := s.config.CommandLine()
	found := map[string]string{}
	if ip, _ := s.advertised(); ip != nil {
		found["advertise-address"], found["external-hostname"] = ip.String(), ip.String()
	}
	if s.config.TLSCertFile == "" && s.config.CertDir != "" {
		found["tls-cert-file"] = filepath.Join(s.config.CertDir, ownCertFile)
		found["tls-private-key-file"] = filepath.Join(s.config.CertDir, ownKeyFile)
	}
	for name, value := range found {
		if has, ok := out[name]; ok && (has == "" || has == noAddress) {
			out[name] = value
		}
	}
	if _, ok := out["watch-cache-sizes"]; ok {
		out["watch-cache-sizes"] = "[" + strings.Join(s.config.CacheSizes(), ",") + "]"
	}
	return out
}
