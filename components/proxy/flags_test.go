package proxy

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// upstreamFlags are those of upstream's kube-proxy 1.36 but those of logging, --version and --help, which all programs
// have, and of Windows.
const upstreamFlags = `
bind-address bind-address-hard-fail cleanup cluster-cidr config config-sync-period conntrack-max-per-core conntrack-min
conntrack-tcp-be-liberal conntrack-tcp-timeout-close-wait conntrack-tcp-timeout-established conntrack-udp-timeout
conntrack-udp-timeout-stream detect-local-mode feature-gates healthz-bind-address hostname-override init-only
iptables-localhost-nodeports iptables-masquerade-bit iptables-min-sync-period iptables-sync-period ipvs-exclude-cidrs
ipvs-min-sync-period ipvs-scheduler ipvs-strict-arp ipvs-sync-period ipvs-tcp-timeout ipvs-tcpfin-timeout
ipvs-udp-timeout kube-api-burst kube-api-content-type kube-api-qps kubeconfig masquerade-all master
metrics-bind-address nodeport-addresses oom-score-adj pod-bridge-interface pod-interface-name-prefix profiling
proxy-mode show-hidden-metrics-for-version write-config-to
`

// TestFlagsOfUpstream: upstream's command line is taken, with the same names.
func TestFlagsOfUpstream(t *testing.T) {
	var config Config
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(fs)
	for _, name := range strings.Fields(upstreamFlags) {
		if fs.Lookup(name) == nil {
			t.Errorf("--%s is not known", name)
		}
	}
	if err := fs.Parse([]string{"--ipvs-strict-arp", "--ipvs-scheduler=rr", "--init-only=false"}); err != nil {
		t.Error(err)
	}
	if err := fs.Set("init-only", "true"); err == nil {
		t.Error("--init-only is taken")
	}
}
