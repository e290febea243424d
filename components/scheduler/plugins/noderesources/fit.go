// Package noderesources refuses nodes that lack what a pod requests, and prefers nodes by how much of them is taken.
package noderesources

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// FitName is the name of the plug-in Fit.
const FitName = "NodeResourcesFit"

// Fit is a cycle.Filter and, by its Strategy, a cycle.Score.
type Fit struct {
	// IgnoredResources and IgnoredGroups ("example.com" for "example.com/x") of extended resources are not checked.
	IgnoredResources, IgnoredGroups []string
	Strategy                        Strategy
	// Devices has extended resources that a node lacks left to the device classes that serve them (KEP-5004).
	Devices bool
	// Selectors are the compiled ones of device classes; only with Devices.
	Selectors *cel.Cache
}

// Name returns FitName.
func (*Fit) Name() string { return FitName }

// Hints say that a node with room now helps, a pod that went or shrank, and the pod asking for less.
func (f *Fit) Hints() []queue.Hint {
	hints := []queue.Hint{
		{Kinds: queue.NodeAdded | queue.NodeAllocatable, Helps: func(p *snapshot.Pod, e queue.Event) bool {
			return f.couldFit(p, e.Node) && (e.OldNode == nil || grew(p, e.OldNode, e.Node))
		}},
		{Kinds: queue.PodRemoved},
		{Kinds: queue.PodShrunk, Helps: func(p *snapshot.Pod, e queue.Event) bool { return frees(p, e) }},
		{Kinds: queue.OwnRequests},
	}
	if f.Devices {
		hints = append(hints, queue.Hint{Kinds: queue.DeviceClassAdded | queue.DeviceClassUpdated, Helps: servable})
	}
	return hints
}

// servable tells whether a device class could serve what the pod requests.
func servable(p *snapshot.Pod, _ queue.Event) bool {
	return slices.ContainsFunc(asked(p), snapshot.IsExtended)
}

// Filter tests for room.
func (f *Fit) Filter(p *snapshot.Pod, s *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	t := &test{requests: &p.Requests}
	for name, amount := range p.Requests.Scalar {
		if amount > 0 && !f.ignores(name) {
			t.scalars = append(t.scalars, name)
		}
	}
	slices.Sort(t.scalars)
	for i, name := range t.scalars {
		if f.Devices && s.DeviceClassFor(name) != nil {
			t.devices |= firstScalar << i
		}
	}
	return t, nil
}

func (f *Fit) ignores(name v1.ResourceName) bool {
	group, _, extended := strings.Cut(string(name), "/")
	if !extended || strings.HasSuffix(group, "kubernetes.io") {
		return false
	}
	return slices.Contains(f.IgnoredResources, string(name)) || slices.Contains(f.IgnoredGroups, group)
}

type test struct {
	requests *snapshot.Resources
	scalars  []v1.ResourceName
	devices  uint64 // bits of the scalars that device classes serve where a node has none
	refusals map[uint64]*cycle.Refusal
}

// Bits of the resources that lack; scalars follow.
const (
	lacksPods uint64 = 1 << iota
	lacksCPU
	lacksMemory
	lacksEphemeral
	never // even an empty node would not do
	firstScalar
)

// mostScalars have bits.
const mostScalars = 64 - 5

func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	lacks := uint64(0)
	if int64(len(n.Pods))+1 > n.AllowedPods {
		lacks = lacksPods
	}
	r := t.requests
	lacks |= short(r.CPU, n.Requested.CPU, n.Allocatable.CPU, lacksCPU)
	lacks |= short(r.Memory, n.Requested.Memory, n.Allocatable.Memory, lacksMemory)
	lacks |= short(r.Ephemeral, n.Requested.Ephemeral, n.Allocatable.Ephemeral, lacksEphemeral)
	for i, name := range t.scalars[:min(len(t.scalars), mostScalars)] {
		if t.devices&(firstScalar<<i) != 0 && n.Allocatable.Scalar[name] == 0 {
			continue // plug-in DynamicResources decides
		}
		lacks |= short(r.Scalar[name], n.Requested.Scalar[name], n.Allocatable.Scalar[name], firstScalar<<i)
	}
	if len(t.scalars) > mostScalars {
		return t.checkRest(n, lacks)
	}
	if lacks == 0 {
		return nil
	}
	return t.refusal(lacks)
}

// checkRest checks the resources that have no bits; lacks is what lacks of the others.
func (t *test) checkRest(n *snapshot.Node, lacks uint64) *cycle.Refusal {
	var reasons []string
	for _, name := range t.scalars[mostScalars:] {
		lack := short(t.requests.Scalar[name], n.Requested.Scalar[name], n.Allocatable.Scalar[name], firstScalar)
		if lack != 0 {
			lacks |= lack & never
			reasons = append(reasons, "Insufficient "+string(name))
		}
	}
	if lacks == 0 && len(reasons) == 0 {
		return nil
	}
	r := *t.refusal(lacks)
	r.Reasons = slices.Concat(r.Reasons, reasons)
	return &r
}

func short(asked, taken, allocatable int64, bit uint64) uint64 {
	switch {
	case asked == 0 || asked <= allocatable-taken:
		return 0
	case asked > allocatable:
		return bit | never
	}
	return bit
}

func (t *test) refusal(lacks uint64) *cycle.Refusal {
	if r, ok := t.refusals[lacks]; ok {
		return r
	}
	r := &cycle.Refusal{Unresolvable: lacks&never != 0}
	add := func(bit uint64, reason string) {
		if lacks&bit != 0 {
			r.Reasons = append(r.Reasons, reason)
		}
	}
	add(lacksPods, "Too many pods")
	add(lacksCPU, "Insufficient cpu")
	add(lacksMemory, "Insufficient memory")
	add(lacksEphemeral, "Insufficient ephemeral-storage")
	for i, name := range t.scalars[:min(len(t.scalars), mostScalars)] {
		add(firstScalar<<i, "Insufficient "+string(name))
	}
	if t.refusals == nil {
		t.refusals = map[uint64]*cycle.Refusal{}
	}
	t.refusals[lacks] = r
	return r
}

// couldFit tells whether the pod would fit on the node if it were empty.
func (f *Fit) couldFit(p *snapshot.Pod, n *v1.Node) bool {
	allocatable := n.Status.Allocatable
	if allocatable.Pods().Value() < 1 {
		return false
	}
	for _, name := range asked(p) {
		quantity := allocatable[name]
		available := quantity.Value()
		if name == v1.ResourceCPU {
			available = quantity.MilliValue()
		}
		if f.Devices && available == 0 && snapshot.IsExtended(name) {
			continue // it may have devices
		}
		if !f.ignores(name) && p.Requests.Of(name) > available {
			return false
		}
	}
	return true
}

// grew tells whether a node has more of a resource that the pod requests, or allows more pods.
func grew(p *snapshot.Pod, old, now *v1.Node) bool {
	for _, name := range append(asked(p), v1.ResourcePods) {
		before, after := old.Status.Allocatable[name], now.Status.Allocatable[name]
		if after.Cmp(before) > 0 {
			return true
		}
	}
	return false
}

func frees(p *snapshot.Pod, e queue.Event) bool {
	for _, name := range asked(p) {
		if e.Pod.Requests.Of(name) < e.OldPod.Requests.Of(name) {
			return true
		}
	}
	return false
}

func asked(p *snapshot.Pod) []v1.ResourceName {
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}
	for name := range p.Requests.Scalar {
		names = append(names, name)
	}
	return slices.DeleteFunc(names, func(name v1.ResourceName) bool { return p.Requests.Of(name) == 0 })
}
