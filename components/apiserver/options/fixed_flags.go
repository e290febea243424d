package options

import (
	"github.com/spf13/pflag"

	"quintet.dev/quintet/internal/fixedflag"
)

const (
	noGate     = "the feature gate that it belongs to is off in this release"
	noElection = noGate + " (CoordinatedLeaderElection)"
	noSkew     = "the server is Kubernetes 1.36 and emulates no other"
)

func addFixedFlags(fs *pflag.FlagSet) {
	fixedflag.Add(fs, map[string]fixedflag.Flag{
		"emulated-version": {Kind: "strings", Allowed: []string{"1.36", "kube=1.36"}, Why: noSkew},

		"emulation-forward-compatible":                {Kind: "bool", Allowed: []string{"false"}, Why: noSkew},
		"runtime-config-emulation-forward-compatible": {Kind: "bool", Allowed: []string{"false"}, Why: noSkew},

		"coordinated-leadership-lease-duration": {Kind: "duration", Allowed: []string{"15s"}, Why: noElection},
		"coordinated-leadership-renew-deadline": {Kind: "duration", Allowed: []string{"10s"}, Why: noElection},
		"coordinated-leadership-retry-period":   {Kind: "duration", Allowed: []string{"2s"}, Why: noElection},
	})
}
