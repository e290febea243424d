package kubelet

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// upstreamFlags are those of upstream's kubelet 1.36 but those of logging, --version and --help, which all programs
// have.
const upstreamFlags = `
address allowed-unsafe-sysctls anonymous-auth authentication-token-webhook authentication-token-webhook-cache-ttl
authorization-mode authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
bootstrap-kubeconfig cert-dir cgroup-driver cgroup-root cgroups-per-qos client-ca-file cloud-provider cluster-dns
cluster-domain config config-dir container-log-max-files container-log-max-size container-runtime-endpoint
contention-profiling cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy cpu-manager-policy-options
cpu-manager-reconcile-period enable-controller-attach-detach enable-debugging-handlers enable-server
enforce-node-allocatable event-burst event-qps eviction-hard eviction-max-pod-grace-period eviction-minimum-reclaim
eviction-pressure-transition-period eviction-soft eviction-soft-grace-period exit-on-lock-contention
experimental-allocatable-ignore-eviction experimental-mounter-path fail-swap-on feature-gates file-check-frequency
hairpin-mode healthz-bind-address healthz-port hostname-override housekeeping-interval http-check-frequency
image-credential-provider-bin-dir image-credential-provider-config image-gc-high-threshold image-gc-low-threshold
image-service-endpoint kernel-memcg-notification kube-api-burst kube-api-content-type kube-api-qps kube-reserved
kube-reserved-cgroup kubeconfig kubelet-cgroups local-storage-capacity-isolation lock-file manifest-url
manifest-url-header max-open-files max-pods maximum-dead-containers maximum-dead-containers-per-container
memory-manager-policy minimum-container-ttl-duration minimum-image-ttl-duration node-ip node-labels
node-status-max-images node-status-update-frequency oom-score-adj pod-cidr pod-infra-container-image
pod-manifest-path pod-max-pids pods-per-core port protect-kernel-defaults provider-id qos-reserved read-only-port
register-node register-schedulable register-with-taints registry-burst registry-qps reserved-cpus reserved-memory
resolv-conf root-dir rotate-certificates rotate-server-certificates runtime-cgroups runtime-request-timeout
seccomp-default serialize-image-pulls streaming-connection-idle-timeout sync-frequency system-cgroups system-reserved
system-reserved-cgroup tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file topology-manager-policy
topology-manager-policy-options topology-manager-scope volume-plugin-dir volume-stats-agg-period
`

// TestFlagsOfUpstream: upstream's flags are known; those with nothing to set take what is so anyway, and tell why not
// another value.
func TestFlagsOfUpstream(t *testing.T) {
	var config Config
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(fs)
	for _, name := range strings.Fields(upstreamFlags) {
		if fs.Lookup(name) == nil {
			t.Errorf("--%s is not known", name)
		}
	}
	for _, f := range upstreamOnly() {
		if err := fs.Set(f.Name, f.Default); err != nil {
			t.Errorf("upstream's default is refused: %v", err)
		}
		if err := fs.Set(f.Name, "other"); err == nil || !strings.Contains(err.Error(), f.Why) {
			t.Errorf("--%s=other: %v", f.Name, err)
		}
	}
}
