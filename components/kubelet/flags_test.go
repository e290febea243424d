package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// upstreamFlags are the flags of upstream's kubelet 1.36 for Linux but those of logging and cAdvisor, --version and
// --help.
const upstreamFlags = `
config config-dir kubeconfig bootstrap-kubeconfig hostname-override node-ip cert-dir root-dir cloud-provider
provider-id node-labels lock-file exit-on-lock-contention image-credential-provider-config
image-credential-provider-bin-dir register-schedulable minimum-container-ttl-duration
maximum-dead-containers-per-container maximum-dead-containers experimental-allocatable-ignore-eviction
address port read-only-port healthz-bind-address healthz-port enable-server enable-debugging-handlers
contention-profiling anonymous-auth authentication-token-webhook authentication-token-webhook-cache-ttl
authorization-mode authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
client-ca-file tls-cert-file tls-private-key-file tls-cipher-suites tls-min-version rotate-certificates
rotate-server-certificates streaming-connection-idle-timeout show-hidden-metrics-for-version feature-gates
pod-manifest-path file-check-frequency manifest-url manifest-url-header http-check-frequency sync-frequency
registry-qps registry-burst event-qps event-burst kube-api-content-type kube-api-qps kube-api-burst
serialize-image-pulls minimum-image-ttl-duration image-gc-high-threshold image-gc-low-threshold
container-runtime-endpoint image-service-endpoint runtime-request-timeout pod-cidr resolv-conf
container-log-max-size container-log-max-files cluster-dns cluster-domain hairpin-mode
cgroup-driver cgroup-root cgroups-per-qos kubelet-cgroups system-cgroups runtime-cgroups
cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy cpu-manager-policy-options cpu-manager-reconcile-period
memory-manager-policy reserved-memory topology-manager-policy topology-manager-policy-options topology-manager-scope
reserved-cpus qos-reserved system-reserved kube-reserved system-reserved-cgroup kube-reserved-cgroup
enforce-node-allocatable fail-swap-on local-storage-capacity-isolation
eviction-hard eviction-soft eviction-soft-grace-period eviction-pressure-transition-period
eviction-max-pod-grace-period eviction-minimum-reclaim kernel-memcg-notification
max-pods pods-per-core pod-max-pids max-open-files oom-score-adj node-status-update-frequency node-status-max-images
register-node register-with-taints allowed-unsafe-sysctls seccomp-default protect-kernel-defaults
make-iptables-util-chains enable-controller-attach-detach volume-plugin-dir volume-stats-agg-period
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
		"--cpu-manager-policy=static": "none are pinned", "--cpu-manager-policy=none": "",
		"--cloud-provider=aws": "no provider is built in", "--cloud-provider=external": "",
		"--read-only-port=10255": "asks who it answers", "--contention-profiling": "not profiled",
	} {
		c, fs := NewConfig(), pflag.NewFlagSet("", pflag.ContinueOnError)
		c.AddFlags(fs)
		err := fs.Parse([]string{arg})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
		if tainted := len(c.RegisterWithTaints) == 1; tainted != (arg == "--cloud-provider=external") {
			t.Errorf("%s: taints %v", arg, c.RegisterWithTaints)
		}
	}
}

// TestConfigDir: later files win over earlier ones and --config; maps are merged, lists replaced.
func TestConfigDir(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.yaml": "maxPods: 1\nclusterDNS: [10.0.0.1, 10.0.0.2]\n" +
			"systemReserved: {cpu: '1', memory: 1Gi}\n",
		"conf.d/20-b.conf":    "maxPods: 3\n",
		"conf.d/10-a.conf":    "maxPods: 2\nclusterDNS: [10.0.0.3]\nsystemReserved: {cpu: '2'}\n",
		"conf.d/ignored.yaml": "maxPods: 4\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + text
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := NewConfig()
	c.ConfigFile, c.ConfigDir = filepath.Join(dir, "main.yaml"), filepath.Join(dir, "conf.d")
	if err := c.ReadFile(); err != nil {
		t.Fatal(err)
	}
	if c.MaxPods != 3 || len(c.ClusterDNS) != 1 ||
		c.SystemReserved["cpu"] != "2" || c.SystemReserved["memory"] != "1Gi" {
		t.Errorf("maxPods %d, clusterDNS %v, systemReserved %v", c.MaxPods, c.ClusterDNS, c.SystemReserved)
	}
}
