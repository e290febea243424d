package kubelet

import "quintet.dev/quintet/internal/upstreamflags"

// upstreamOnly are flags of upstream's kubelet that have nothing to set here.
func upstreamOnly() []upstreamflags.Flag {
	const (
		pinning    = "CPUs and memory are not given to containers exclusively"
		collected  = "dead containers are removed as soon as nothing needs them"
		groups     = "processes are not moved to other control groups"
		protection = "the process does not change its own limits"
	)
	return []upstreamflags.Flag{
		{Name: "cloud-provider", Why: "the node's addresses are those of --node-ip, and no provider initializes it"},
		{Name: "config-dir", Why: "drop-in files are not merged: put all into the file of --config"},
		{Name: "contention-profiling", Default: "false", Why: "lock contention is not profiled"},
		{Name: "cpu-manager-policy", Default: "none", Why: pinning},
		{Name: "cpu-manager-policy-options", Why: pinning},
		{Name: "cpu-manager-reconcile-period", Default: "10s", Why: pinning},
		{Name: "memory-manager-policy", Default: "None", Why: pinning},
		{Name: "topology-manager-policy", Default: "none", Why: pinning},
		{Name: "topology-manager-policy-options", Why: pinning},
		{Name: "topology-manager-scope", Default: "container", Why: pinning},
		{Name: "reserved-memory", Why: "use reservedMemory in the file of --config"},
		{Name: "enable-controller-attach-detach", Default: "true",
			Why: "volumes are attached by the controller manager only"},
		{Name: "exit-on-lock-contention", Default: "false", Why: "there is no lock file"},
		{Name: "lock-file", Why: "there is no lock file"},
		{Name: "experimental-allocatable-ignore-eviction", Default: "false",
			Why: "eviction thresholds always count for what pods may have"},
		{Name: "experimental-mounter-path", Why: "volumes are mounted by this process"},
		{Name: "hairpin-mode", Default: "promiscuous-bridge", Same: []string{"hairpin-veth", "none"},
			Why: "the network of pods is the engine's"},
		{Name: "housekeeping-interval", Default: "10s", Why: "containers are measured when somebody asks"},
		{Name: "kernel-memcg-notification", Default: "false", Why: "memory is looked at regularly"},
		{Name: "kube-api-content-type", Default: "application/vnd.kubernetes.protobuf",
			Why: "the content type of requests can't be chosen"},
		{Name: "kubelet-cgroups", Why: groups},
		{Name: "runtime-cgroups", Why: groups},
		{Name: "system-cgroups", Why: groups},
		{Name: "local-storage-capacity-isolation", Default: "true", Why: "local storage is always accounted for"},
		{Name: "max-open-files", Default: "1000000", Why: protection},
		{Name: "oom-score-adj", Default: "-999", Why: protection},
		{Name: "maximum-dead-containers", Default: "-1", Why: collected},
		{Name: "maximum-dead-containers-per-container", Default: "1", Why: collected},
		{Name: "minimum-container-ttl-duration", Default: "0s", Same: []string{"0"}, Why: collected},
		{Name: "pods-per-core", Default: "0", Why: "use --max-pods"},
		{Name: "protect-kernel-defaults", Default: "false", Why: "kernel settings are left as they are"},
		{Name: "qos-reserved", Why: "memory is not reserved by quality of service"},
		{Name: "read-only-port", Default: "0", Why: "nothing is served without authentication"},
		{Name: "runtime-request-timeout", Default: "2m0s", Same: []string{"2m"},
			Why: "the time of requests to the engine can't be set"},
		{Name: "tls-cipher-suites", Why: "cipher suites are Go's defaults"},
		{Name: "tls-min-version", Why: "the TLS version is Go's default"},
		{Name: "volume-plugin-dir", Default: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
			Why: "FlexVolume drivers are not supported: use CSI"},
		{Name: "volume-stats-agg-period", Default: "1m0s", Same: []string{"1m"},
			Why: "the period at which volumes are measured can't be set"},
	}
}
