package scheduler

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// upstreamFlags are all flags of upstream's scheduler 1.36 but those of logging, --version
// and --help, which all programs have.
const upstreamFlags = `
config write-config-to pod-max-in-unschedulable-pods-duration
authentication-kubeconfig authentication-skip-lookup authentication-token-webhook-cache-ttl
authentication-tolerate-lookup-failure client-ca-file requestheader-allowed-names requestheader-client-ca-file
requestheader-extra-headers-prefix requestheader-group-headers requestheader-uid-headers
requestheader-username-headers
authorization-always-allow-paths authorization-kubeconfig authorization-webhook-cache-authorized-ttl
authorization-webhook-cache-unauthorized-ttl
bind-address cert-dir disable-http2-serving http2-max-streams-per-connection permit-address-sharing
permit-port-sharing secure-port tls-cert-file tls-cipher-suites tls-curve-preferences tls-min-version
tls-private-key-file tls-sni-cert-key
leader-elect leader-elect-lease-duration leader-elect-renew-deadline leader-elect-resource-lock
leader-elect-resource-name leader-elect-resource-namespace leader-elect-retry-period
allow-metric-labels allow-metric-labels-manifest disabled-metrics show-hidden-metrics-for-version
contention-profiling profiling emulated-version min-compatibility-version feature-gates
kube-api-burst kube-api-content-type kube-api-qps kubeconfig master
`

// TestFlagsOfUpstream: upstream's command line is taken, with the same names.
func TestFlagsOfUpstream(t *testing.T) {
	var config Config
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(fs)
	for _, name := range strings.Fields(upstreamFlags) {
		if fs.Lookup(name) == nil {
			t.Errorf("--%s is not taken", name)
		}
	}
}
