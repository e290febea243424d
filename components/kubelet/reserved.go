package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/eviction"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
)

// cgroupMount and hugePagesDir are the kernel's directories.
const (
	cgroupMount  = "/sys/fs/cgroup"
	hugePagesDir = "/sys/kernel/mm/hugepages"
)

// Values of memorySwap.swapBehavior.
const (
	noSwap      = "NoSwap"
	limitedSwap = "LimitedSwap"
)

// pids is the name of process IDs in reservations.
const pids v1.ResourceName = "pid"

// machine is what the kernel tells of this machine. It is empty where the engine only simulates one.
type machine struct {
	bounds    cgroups.Bounds
	hugePages v1.ResourceList
	swap      int64 // bytes
}

func (k *Kubelet) readMachine(simulated runtime.Simulated) (m machine, err error) {
	if simulated.Processes {
		return m, nil
	}
	if k.config.CapacityFromCgroup {
		if m.bounds, err = cgroups.BoundsOf(cgroupMount); err != nil {
			return m, err
		}
	}
	if m.hugePages, err = cgroups.HugePages(hugePagesDir); err != nil {
		return m, fmt.Errorf("huge pages: %w", err)
	}
	if !m.bounds.NoSwap {
		if m.swap, err = cgroups.Swap("/proc"); err != nil {
			return m, err
		}
	}
	if m.swap > 0 && k.config.FailSwapOn {
		swaps, err := os.ReadFile("/proc/swaps")
		if err != nil {
			return m, err
		}
		return m, fmt.Errorf("running with swap on is not supported, please disable swap or set --fail-swap-on flag "+
			"to false. /proc/swaps contained: %q", strings.Split(strings.TrimSpace(string(swaps)), "\n"))
	}
	return m, nil
}

// reservations are what pods can't have, because others need it.
type reservations struct{ system, kube v1.ResourceList }

// total is the sum.
func (r reservations) total() v1.ResourceList {
	sum := v1.ResourceList{}
	for _, list := range []v1.ResourceList{r.system, r.kube} {
		for name, quantity := range list {
			total := sum[name]
			total.Add(quantity)
			sum[name] = total
		}
	}
	return sum
}

// reserved reads the reservations. CPUs that are reserved one by one take the place of all other CPU.
func (c *Config) reserved() (r reservations, err error) {
	if r.system, err = reservation(c.SystemReserved); err != nil {
		return r, fmt.Errorf("--system-reserved value failed to parse: %w", err)
	}
	if r.kube, err = reservation(c.KubeReserved); err != nil {
		return r, fmt.Errorf("--kube-reserved value failed to parse: %w", err)
	}
	if set, err := cpuset.Parse(c.ReservedSystemCPUs); err == nil && set.Size() > 0 {
		delete(r.kube, v1.ResourceCPU)
		r.system[v1.ResourceCPU] = *resource.NewQuantity(int64(set.Size()), resource.DecimalSI)
	}
	return r, nil
}

func reservation(texts map[string]string) (v1.ResourceList, error) {
	list := v1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		switch v1.ResourceName(name) {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, pids:
		default:
			return nil, fmt.Errorf("cannot reserve %q resource", name)
		}
		quantity, err := resource.ParseQuantity(texts[name])
		if err != nil {
			return nil, fmt.Errorf("failed to parse quantity %q for %q resource: %w", texts[name], name, err)
		}
		if quantity.Sign() < 0 {
			return nil, fmt.Errorf("resource quantity for %q cannot be negative: %v", name, texts[name])
		}
		list[v1.ResourceName(name)] = quantity
	}
	return list, nil
}

func validateReservedMemory(reservations []kubeletconfig.MemoryReservation) (wrong []error) {
	bad := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("invalid configuration: "+format, args...))
	}
	type slot struct {
		node int32
		name v1.ResourceName
	}
	seen := map[slot]bool{}
	for i := range reservations {
		numa := reservations[i].NumaNode
		for _, name := range slices.Sorted(maps.Keys(reservations[i].Limits)) {
			quantity := reservations[i].Limits[name]
			if name != v1.ResourceMemory && !strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
				bad("the limit type %q for NUMA node %d is not supported, only %v is accepted", name, numa,
					[]v1.ResourceName{v1.ResourceMemory, v1.ResourceHugePagesPrefix + "<HugePageSize>"})
			}
			if quantity.IsZero() {
				bad("reserved memory may not be zero for NUMA node %d and resource %q", numa, name)
			}
			if seen[slot{numa, name}] {
				bad("the reserved memory has a duplicate value for NUMA node %d and resource %q", numa, name)
			}
			seen[slot{numa, name}] = true
		}
	}
	return wrong
}

// enforcer keeps pods, and what they are kept from, to their parts of the machine.
type enforcer struct {
	config       *Config
	tree         cgroups.Tree
	capacity     v1.ResourceList
	reservations reservations
	event        func(kind, reason, message string)
}

// podLimits is what all pods have together: the capacity without what is reserved. Thresholds of eviction are not taken
// off, so that pods can reach them.
func (e *enforcer) podLimits() cgroups.Limits {
	left := v1.ResourceList{}
	reserved := e.reservations.total()
	for name, quantity := range e.capacity {
		quantity = quantity.DeepCopy()
		quantity.Sub(reserved[name])
		left[name] = quantity
	}
	return groupLimits(left)
}

// groupLimits turns amounts into limits of a control group. CPU is a share, never a bound.
func groupLimits(list v1.ResourceList) cgroups.Limits {
	memory, processes := list[v1.ResourceMemory], list[pids]
	return cgroups.Limits{
		CPUShares: spec.CPUShares(list[v1.ResourceCPU]), MemoryBytes: memory.Value(), PIDs: processes.Value(),
	}
}

// enforcePods sets the limits of all pods. Without their enforcement pods share the CPUs by class all the same.
func (e *enforcer) enforcePods() error {
	limits := e.podLimits()
	enforced := slices.Contains(e.config.EnforceNodeAllocatable, enforcePods)
	if !enforced {
		limits.MemoryBytes, limits.PIDs = 0, 0
	}
	if err := e.tree.SetPods(limits); err != nil {
		e.event(v1.EventTypeWarning, "FailedNodeAllocatableEnforcement",
			fmt.Sprintf("Failed to update Node Allocatable Limits %q: %v", "kubepods", err))
		return err
	}
	if enforced {
		e.event(v1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	}
	return nil
}

// enforceReserved sets the limits of what is not pods. A group that can't be limited ends the kubelet's start.
func (e *enforcer) enforceReserved() error {
	for _, part := range []struct {
		key, compressible, group, title string
		list                            v1.ResourceList
	}{
		{enforceSystem, enforceSystemCompressible, e.config.SystemReservedCgroup, "System", e.reservations.system},
		{enforceKube, enforceKubeCompressible, e.config.KubeReservedCgroup, "Kube", e.reservations.kube},
	} {
		list := part.list
		switch {
		case slices.Contains(e.config.EnforceNodeAllocatable, part.key):
		case slices.Contains(e.config.EnforceNodeAllocatable, part.compressible):
			list = v1.ResourceList{v1.ResourceCPU: list[v1.ResourceCPU]}
		default:
			continue
		}
		if err := e.tree.SetReserved(part.group, groupLimits(list)); err != nil {
			message := fmt.Sprintf("Failed to enforce %s Reserved Cgroup Limits on %q: %v", part.title, part.group, err)
			e.event(v1.EventTypeWarning, "FailedNodeAllocatableEnforcement", message)
			return errors.New(message)
		}
		e.event(v1.EventTypeNormal, "NodeAllocatableEnforced",
			fmt.Sprintf("Updated limits on %s reserved cgroup %s", strings.ToLower(part.title), part.group))
	}
	return nil
}

// enforcementPeriod is how long to wait before limits that could not be set are tried again, as upstream's.
const enforcementPeriod = time.Minute

// run enforces the limits of pods, and shares the CPUs between their classes, until that succeeded, or ctx ends.
func (e *enforcer) run(ctx context.Context, k *Kubelet, share func() error) {
	for {
		err := e.enforcePods()
		if err == nil {
			err = share()
		}
		if err == nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Limits of all pods can't be set, will be retried")
		select {
		case <-ctx.Done():
			return
		case <-k.clock.After(enforcementPeriod):
		}
	}
}

// newEnforcer makes what enforces the node's allocatable resources, nil where there are no control groups.
func (k *Kubelet) newEnforcer(tree cgroups.Tree, capacity v1.ResourceList, bounds cgroups.Bounds, r reservations,
	recorder record.EventRecorder) (*enforcer, error) {
	if tree.Mount == "" {
		return nil, nil
	}
	capacity = maps.Clone(capacity)
	if reserved, has := r.total()[pids]; has && reserved.Sign() > 0 {
		most, err := eviction.ProcessLimit("/proc", bounds)
		if err != nil {
			return nil, err
		}
		capacity[pids] = *resource.NewQuantity(most, resource.DecimalSI)
	}
	ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: k.name, UID: types.UID(k.name)}
	e := &enforcer{config: &k.config, tree: tree, capacity: capacity, reservations: r,
		event: func(kind, reason, message string) { recorder.Event(ref, kind, reason, message) }}
	return e, e.enforceReserved()
}

// killTogether tells whether the OOM killer is to end all processes of a container.
func (c *Config) killTogether(tree cgroups.Tree) (bool, error) {
	single := c.SingleProcessOOMKill
	if single != nil && !*single && tree.Mount != "" && !tree.Unified() {
		return false, errors.New("invalid configuration: singleProcessOOMKill must not be explicitly set to false when " +
			"using cgroup v1")
	}
	return single == nil || !*single, nil
}
