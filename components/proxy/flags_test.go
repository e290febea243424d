package proxy

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// upstreamFlags are all flags of upstream's kube-proxy 1.36 for Linux but those of logging, --version and --help, which
// all programs have.
const upstreamFlags = `
config write-config-to cleanup feature-gates kubeconfig master kube-api-content-type kube-api-burst kube-api-qps
hostname-override bind-address healthz-bind-address metrics-bind-address bind-address-hard-fail profiling
show-hidden-metrics-for-version init-only proxy-mode healthz-port metrics-port
iptables-masquerade-bit masquerade-all iptables-localhost-nodeports iptables-sync-period iptables-min-sync-period
ipvs-sync-period ipvs-min-sync-period ipvs-scheduler ipvs-exclude-cidrs ipvs-strict-arp ipvs-tcp-timeout
ipvs-tcpfin-timeout ipvs-udp-timeout
detect-local-mode pod-bridge-interface pod-interface-name-prefix cluster-cidr nodeport-addresses oom-score-adj
conntrack-max-per-core conntrack-min conntrack-tcp-timeout-established conntrack-tcp-timeout-close-wait
conntrack-tcp-be-liberal conntrack-udp-timeout conntrack-udp-timeout-stream config-sync-period
`

// TestFlagsOfUpstream: upstream's command line is taken, with the same names.
func TestFlagsOfUpstream(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	NewConfig().AddFlags(fs)
	for _, name := range strings.Fields(upstreamFlags) {
		if fs.Lookup(name) == nil {
			t.Errorf("--%s is not taken", name)
		}
	}
}

// TestRefusedFlags: what can't be done is an error that says why.
func TestRefusedFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"--show-hidden-metrics-for-version=1.35": "no metrics are hidden", "--init-only": "privileges",
		"--healthz-port=70000": "out of range", "--init-only=false": "", "--ipvs-scheduler=rr": "",
	} {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		NewConfig().AddFlags(fs)
		err := fs.Parse([]string{arg})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}

// TestDeprecatedPorts: the port of a deprecated flag goes to an address without one, and 0 serves nothing.
func TestDeprecatedPorts(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"0.0.0.0:10256", ""}: "0.0.0.0:10256", {"0.0.0.0:10256", "99"}: "0.0.0.0:99", {"::", "99"}: "[::]:99",
		{"0.0.0.0:1", "99"}: "0.0.0.0:1", {"0.0.0.0:10256", "0"}: "",
	} {
		if got := serveAt(in[0], in[1], healthzPort); got != want {
			t.Errorf("%v: %q, want %q", in, got, want)
		}
	}
}
