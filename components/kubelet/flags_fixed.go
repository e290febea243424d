package kubelet

import (
	"fmt"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/internal/fixedflag"
)

// uninitialized is the taint of nodes that a cloud provider has to know first
// (https://kubernetes.io/docs/reference/labels-annotations-taints/).
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

func (c *Config) setCloudProvider(name string) error {
	switch name {
	case "":
	case "external":
		c.RegisterWithTaints = append(c.RegisterWithTaints, v1.Taint{Key: uninitialized, Value: "true",
			Effect: v1.TaintEffectNoSchedule})
	default:
		return fmt.Errorf("%q is not supported: use external, no provider is built in", name)
	}
	return nil
}

// addFixedFlags adds upstream's flags for what this kubelet does in one way.
func addFixedFlags(fs *pflag.FlagSet) {
	const (
		noPinning = "CPUs and memory are given to pods by control groups alone, and none are pinned"
		noServer  = "the kubelet serves as Go's TLS does by default"
		noCgroup  = "the kubelet leaves itself, the engine and the system in the control groups that they are in"
		obsolete  = "dead containers are kept as long as their pods need them"
	)
	only := func(kind, why string, allowed ...string) fixedflag.Flag {
		return fixedflag.Flag{Kind: kind, Allowed: allowed, Why: why}
	}
	fixedflag.Add(fs, map[string]fixedflag.Flag{
		"cpu-manager-policy":              only("string", noPinning, "none", ""),
		"cpu-manager-policy-options":      only("mapStringString", noPinning, ""),
		"cpu-manager-reconcile-period":    only("duration", noPinning, "10s"),
		"memory-manager-policy":           only("string", noPinning, "None", ""),
		"reserved-memory":                 only("reserved-memory", noPinning, ""),
		"topology-manager-policy":         only("string", noPinning, "none", ""),
		"topology-manager-policy-options": only("mapStringString", noPinning, ""),
		"topology-manager-scope":          only("string", noPinning, "container", ""),
		"qos-reserved":                    only("mapStringString", noPinning, ""),
		"pods-per-core":                   only("int32", "--max-pods bounds the pods whatever the CPUs", "0"),

		"kubelet-cgroups": only("string", noCgroup, ""), "runtime-cgroups": only("string", noCgroup, ""),
		"system-cgroups": only("string", noCgroup, ""),

		"minimum-container-ttl-duration":        only("duration", obsolete, "0s", "0"),
		"maximum-dead-containers-per-container": only("int32", obsolete, "1"),
		"maximum-dead-containers":               only("int32", obsolete, "-1"),
		"keep-terminated-pod-volumes":           only("bool", "volumes go with their pods", "false"),
		"experimental-allocatable-ignore-eviction": only("bool",
			"allocatable resources leave out the thresholds of eviction", "false"),

		"tls-cipher-suites": only("strings", noServer, ""), "tls-curve-preferences": only("int32Slice", noServer, ""),
		"tls-min-version":                 only("string", noServer, "", "VersionTLS12"),
		"read-only-port":                  only("int32", "the API of the kubelet asks who it answers", "0"),
		"contention-profiling":            only("bool", "locks are not profiled", "false"),
		"show-hidden-metrics-for-version": only("string", "no metrics are hidden", ""),
		"kube-api-content-type": only("string", "it is what the API server and the kubelet speak best",
			"application/vnd.kubernetes.protobuf"),

		"enable-controller-attach-detach": only("bool", "volumes are attached by kube-controller-manager", "true"),
		"volume-plugin-dir": only("string", "FlexVolume drivers are not supported",
			"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"),
		"volume-stats-agg-period":          only("duration", "it is fixed", "1m0s", "1m", "60s"),
		"local-storage-capacity-isolation": only("bool", "ephemeral storage is always measured", "true"),
		"hairpin-mode":                     only("string", "the engine makes the network", "promiscuous-bridge"),
		"make-iptables-util-chains":        only("bool", "no component needs the chains", "true", "false"),
		"kernel-memcg-notification":        only("bool", "memory is measured at intervals", "false"),
		"protect-kernel-defaults":          only("bool", "the kernel's settings are left as they are", "false"),
		"max-open-files":                   only("int64", "the limit is the machine's", "1000000"),
		"runtime-request-timeout":          only("duration", "it is fixed", "2m0s", "2m", "120s"),
		"lock-file":                        only("string", "the engine tells one kubelet's pods from another's", ""),
		"exit-on-lock-contention":          only("bool", "there is no --lock-file", "false"),
	})
}
