package apiserver

import (
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/internal/zpages"
)

// commandLine reads the values of flags as upstream has them, which leaves open what nobody says.
func commandLine(fs *pflag.FlagSet) func() map[string]string {
	read := zpages.Flags(fs)
	return func() map[string]string {
		out := read()
		if !fs.Changed("storage-backend") {
			out["storage-backend"] = ""
		}
		for name, before := range map[string]string{"emulated-version": "", "min-compatibility-version": "kube="} {
			said := ""
			if fs.Changed(name) {
				said = before + out[name]
			}
			out[name] = "[" + said + "]"
		}
		return out
	}
}

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
		out["watch-cache-sizes"] = "[" + strings.Join(s.config.cacheSizes(), ",") + "]"
	}
	return out
}
