package controllers

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// upstreamFlags are all flags of upstream's controller manager 1.36 but those of logging, --version
// and --help, which all programs have.
const upstreamFlags = `
allocate-node-cidrs allow-untagged-cloud cidr-allocator-type cloud-config cloud-provider cluster-cidr cluster-name
configure-cloud-routes external-cloud-volume-plugin node-monitor-period node-sync-period route-reconciliation-period
use-service-account-credentials concurrent-service-syncs
controller-shutdown-timeout controller-start-interval controllers enable-leader-migration leader-migration-config
min-resync-period
attach-detach-reconcile-sync-period disable-attach-detach-reconcile-sync disable-force-detach-on-timeout
cluster-signing-cert-file cluster-signing-duration cluster-signing-key-file
cluster-signing-kube-apiserver-client-cert-file cluster-signing-kube-apiserver-client-key-file
cluster-signing-kubelet-client-cert-file cluster-signing-kubelet-client-key-file
cluster-signing-kubelet-serving-cert-file cluster-signing-kubelet-serving-key-file
cluster-signing-legacy-unknown-cert-file cluster-signing-legacy-unknown-key-file
concurrent-daemonset-syncs concurrent-deployment-syncs concurrent-device-taint-eviction-syncs
concurrent-ephemeralvolume-syncs concurrent-resourceclaim-syncs concurrent-cron-job-syncs concurrent-job-syncs
concurrent-endpoint-syncs endpoint-updates-batch-period
concurrent-service-endpoint-syncs endpointslice-updates-batch-period max-endpoints-per-slice
mirroring-concurrent-service-endpoint-syncs mirroring-endpointslice-updates-batch-period
mirroring-max-endpoints-per-subset
concurrent-gc-syncs enable-garbage-collector
concurrent-horizontal-pod-autoscaler-syncs horizontal-pod-autoscaler-cpu-initialization-period
horizontal-pod-autoscaler-downscale-stabilization horizontal-pod-autoscaler-initial-readiness-delay
horizontal-pod-autoscaler-sync-period horizontal-pod-autoscaler-tolerance
legacy-service-account-token-clean-up-period concurrent-namespace-syncs namespace-sync-period
node-cidr-mask-size node-cidr-mask-size-ipv4 node-cidr-mask-size-ipv6 service-cluster-ip-range
large-cluster-size-threshold node-eviction-rate node-monitor-grace-period node-startup-grace-period
secondary-node-eviction-rate unhealthy-zone-threshold
enable-dynamic-provisioning enable-hostpath-provisioner flex-volume-plugin-dir
pv-recycler-increment-timeout-nfs pv-recycler-minimum-timeout-hostpath pv-recycler-minimum-timeout-nfs
pv-recycler-pod-template-filepath-hostpath pv-recycler-pod-template-filepath-nfs
pv-recycler-timeout-increment-hostpath pvclaimbinder-sync-period
terminated-pod-gc-threshold concurrent-replicaset-syncs concurrent-rc-syncs
concurrent-resource-quota-syncs resource-quota-sync-period
concurrent-serviceaccount-token-syncs root-ca-file service-account-private-key-file
concurrent-statefulset-syncs concurrent-ttl-after-finished-syncs
concurrent-validating-admission-policy-status-syncs
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
	config := DefaultConfig()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(fs)
	for _, name := range strings.Fields(upstreamFlags) {
		if fs.Lookup(name) == nil {
			t.Errorf("--%s is not taken", name)
		}
	}
}
