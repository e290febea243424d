package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"
)

// ResourceConfig is the part of the configuration about what the node has, who may use it, and how it is given back
// when the node shuts down (https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/).
type ResourceConfig struct {
	// CapacityFromCgroup: the node has what the control group of this machine may use, where that is bounded.
	CapacityFromCgroup     bool
	EnforceNodeAllocatable []string
	SystemReservedCgroup   string
	KubeReservedCgroup     string
	// ReservedSystemCPUs is a list of CPUs, such as 0-1,3, whose number takes the place of other reservations of CPU.
	ReservedSystemCPUs string
	// ReservedMemory is checked only: it is for the memory manager's policy Static.
	ReservedMemory       []kubeletconfig.MemoryReservation
	SingleProcessOOMKill *bool // nil is false where control groups are of version 2
	FailSwapOn           bool
	SwapBehavior         string // "" is NoSwap

	ShutdownGracePeriod             time.Duration
	ShutdownGracePeriodCriticalPods time.Duration
	ShutdownByPodPriority           []kubeletconfig.ShutdownGracePeriodByPodPriority
	// ShuttingDown, injected, is closed when the machine begins to shut down: pods then end in order, and Run returns.
	// The program kubelet has the signal SIGPWR for it.
	ShuttingDown <-chan struct{}
}

// Values of EnforceNodeAllocatable.
const (
	enforceNone               = "none"
	enforcePods               = "pods"
	enforceSystem             = "system-reserved"
	enforceSystemCompressible = "system-reserved-compressible"
	enforceKube               = "kube-reserved"
	enforceKubeCompressible   = "kube-reserved-compressible"
)

func newResourceConfig() ResourceConfig {
	return ResourceConfig{EnforceNodeAllocatable: []string{enforcePods}, FailSwapOn: true}
}

func (c *Config) addResourceFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.CapacityFromCgroup, "capacity-from-cgroup", c.CapacityFromCgroup,
		"Declare what the control group of this machine, a container, may use as the node's capacity.")
	fs.StringSliceVar(&c.EnforceNodeAllocatable, "enforce-node-allocatable", c.EnforceNodeAllocatable,
		"What is enforced by control groups: none, or pods, system-reserved, system-reserved-compressible, "+
			"kube-reserved, kube-reserved-compressible.")
	fs.StringVar(&c.SystemReservedCgroup, "system-reserved-cgroup", c.SystemReservedCgroup,
		"Control group of what --system-reserved is for.")
	fs.StringVar(&c.KubeReservedCgroup, "kube-reserved-cgroup", c.KubeReservedCgroup,
		"Control group of what --kube-reserved is for.")
	fs.StringVar(&c.ReservedSystemCPUs, "reserved-cpus", c.ReservedSystemCPUs,
		"CPUs that pods can't have, as 0-1,3; their number takes the place of that in --system-reserved and --kube-reserved.")
	fs.BoolVar(&c.FailSwapOn, "fail-swap-on", c.FailSwapOn, "Don't start on a machine that swaps.")
}

func (c *Config) resourceSettings(f *kubeletconfig.KubeletConfiguration) []setting {
	return []setting{
		{"enforceNodeAllocatable", "enforce-node-allocatable", func() {
			if len(f.EnforceNodeAllocatable) > 0 {
				c.EnforceNodeAllocatable = f.EnforceNodeAllocatable
			}
		}},
		{"systemReservedCgroup", "system-reserved-cgroup", text(&c.SystemReservedCgroup, f.SystemReservedCgroup)},
		{"kubeReservedCgroup", "kube-reserved-cgroup", text(&c.KubeReservedCgroup, f.KubeReservedCgroup)},
		{"reservedSystemCPUs", "reserved-cpus", text(&c.ReservedSystemCPUs, f.ReservedSystemCPUs)},
		{"reservedMemory", "", func() { c.ReservedMemory = f.ReservedMemory }},
		{"singleProcessOOMKill", "", func() { c.SingleProcessOOMKill = f.SingleProcessOOMKill }},
		{"failSwapOn", "fail-swap-on", pointer(&c.FailSwapOn, f.FailSwapOn)},
		{"memorySwap", "", text(&c.SwapBehavior, f.MemorySwap.SwapBehavior)},
		{"shutdownGracePeriod", "", duration(&c.ShutdownGracePeriod, f.ShutdownGracePeriod)},
		{"shutdownGracePeriodCriticalPods", "",
			duration(&c.ShutdownGracePeriodCriticalPods, f.ShutdownGracePeriodCriticalPods)},
		{"shutdownGracePeriodByPodPriority", "", func() { c.ShutdownByPodPriority = f.ShutdownGracePeriodByPodPriority }},
	}
}

func (c *Config) showResources(f *kubeletconfig.KubeletConfiguration) {
	f.EnforceNodeAllocatable, f.ReservedSystemCPUs = c.EnforceNodeAllocatable, c.ReservedSystemCPUs
	f.SystemReservedCgroup, f.KubeReservedCgroup = c.SystemReservedCgroup, c.KubeReservedCgroup
	f.ReservedMemory, f.SingleProcessOOMKill = c.ReservedMemory, c.SingleProcessOOMKill
	f.FailSwapOn, f.MemorySwap.SwapBehavior = &c.FailSwapOn, c.SwapBehavior
	f.ShutdownGracePeriod = metaDuration(c.ShutdownGracePeriod)
	f.ShutdownGracePeriodCriticalPods = metaDuration(c.ShutdownGracePeriodCriticalPods)
	f.ShutdownGracePeriodByPodPriority = c.ShutdownByPodPriority
}

// validateResources tells everything that is wrong, in upstream's words.
func (c *Config) validateResources() error {
	wrong := append(c.validateEnforcement(), c.validateShutdown()...)
	bad := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("invalid configuration: "+format, args...))
	}
	if c.ReservedSystemCPUs != "" {
		if c.SystemReservedCgroup != "" || c.KubeReservedCgroup != "" {
			bad("can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) " +
				"or kubeReservedCgroup (--kube-reserved-cgroup)")
		}
		if _, err := cpuset.Parse(c.ReservedSystemCPUs); err != nil {
			bad("unable to parse reservedSystemCPUs (--reserved-cpus) %v, error: %w", c.ReservedSystemCPUs, err)
		}
	}
	switch c.SwapBehavior {
	case "", noSwap, limitedSwap:
	default:
		bad("memorySwap.swapBehavior %q must be one of: \"\", %q or %q", c.SwapBehavior, limitedSwap, noSwap)
	}
	if _, err := c.reserved(); err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(append(wrong, validateReservedMemory(c.ReservedMemory)...)...)
}

func (c *Config) validateEnforcement() (wrong []error) {
	bad := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("invalid configuration: "+format, args...))
	}
	const list = "enforceNodeAllocatable (--enforce-node-allocatable)"
	for _, pair := range [][2]string{{enforceSystem, enforceSystemCompressible}, {enforceKube, enforceKubeCompressible}} {
		if slices.Contains(c.EnforceNodeAllocatable, pair[0]) && slices.Contains(c.EnforceNodeAllocatable, pair[1]) {
			bad("both %q and %q cannot be specified together in %s", pair[0], pair[1], list)
		}
	}
	for i, value := range c.EnforceNodeAllocatable {
		if slices.Contains(c.EnforceNodeAllocatable[:i], value) {
			bad("duplicated enforcements %q in %s", value, list)
			continue
		}
		switch value {
		case enforcePods:
		case enforceSystem, enforceSystemCompressible:
			if c.SystemReservedCgroup == "" {
				bad("systemReservedCgroup (--system-reserved-cgroup) must be specified when %q or %q included in %s",
					enforceSystem, enforceSystemCompressible, list)
			}
		case enforceKube, enforceKubeCompressible:
			if c.KubeReservedCgroup == "" {
				bad("kubeReservedCgroup (--kube-reserved-cgroup) must be specified when %q or %q included in %s",
					enforceKube, enforceKubeCompressible, list)
			}
		case enforceNone:
			if len(c.EnforceNodeAllocatable) > 1 {
				bad("%s may not contain additional enforcements when %q is specified", list, enforceNone)
			}
			continue
		default:
			bad("option %q specified for %s. Valid options are %q, %q, %q, %q, %q or %q", value, list, enforcePods,
				enforceSystem, enforceSystemCompressible, enforceKube, enforceKubeCompressible, enforceNone)
			continue
		}
		if !c.CgroupsPerQOS {
			bad("cgroupsPerQOS (--cgroups-per-qos) must be set to true when %q contained in %s", value, list)
		}
	}
	return wrong
}

func (c *Config) validateShutdown() (wrong []error) {
	bad := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("invalid configuration: "+format, args...))
	}
	total, critical := c.ShutdownGracePeriod, c.ShutdownGracePeriodCriticalPods
	if critical > total {
		bad("shutdownGracePeriodCriticalPods %v must be <= shutdownGracePeriod %v", critical, total)
	}
	for name, period := range map[string]time.Duration{
		"shutdownGracePeriod": total, "shutdownGracePeriodCriticalPods": critical,
	} {
		if period < 0 || period > 0 && period < time.Second {
			bad("%s %v must be either zero or otherwise >= 1 sec", name, period)
		}
	}
	if len(c.ShutdownByPodPriority) > 0 && (total > 0 || critical > 0) {
		bad("Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time")
	}
	return wrong
}
