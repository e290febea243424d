package dynamicresources

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/structured"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// The reasons, as upstream words them.
const (
	reasonCannotAllocate = "cannot allocate all claims"
	reasonUnavailable    = "resourceclaim not available on the node"
	reasonTimeout        = "timed out trying to allocate devices"
	reasonStaleExtended  = "cannot schedule extended resource claim"
	reasonCannotFit      = "cannot fit resource"
)

// matcher tells which nodes an allocated claim can be used on; nil is every node.
type matcher interface{ Match(*v1.Node) bool }

// test allocates the claims of one pod on nodes.
type test struct {
	plugin   *Plugin
	pod      *snapshot.Pod
	snapshot *snapshot.Snapshot

	claims    []*resourcev1.ResourceClaim
	selectors []matcher // by claim
	special   int       // index of the claim for extended resources, or -1
	allocator structured.Allocator

	results     map[string]result // by node; it does not depend on the pods there
	unavailable []int             // allocated claims that refused a node
}

// result is what the test found for a node.
type result struct {
	refusal     *cycle.Refusal
	special     *resourcev1.ResourceClaim // with the requests for this node; nil if it needs none
	mappings    []v1.ContainerExtendedResourceRequest
	allocations []*resourcev1.AllocationResult // by claim; nil for those that are not to be allocated
}

func (t *test) restrict(i int, selector *v1.NodeSelector) *cycle.Refusal {
	if selector == nil {
		return nil
	}
	parsed, err := nodeaffinity.NewNodeSelector(selector)
	if err != nil {
		return failed(err)
	}
	t.selectors[i] = parsed
	return nil
}

// prepare makes the allocator for this pod.
func (t *test) prepare() error {
	state, features := t.snapshot.Allocated(), t.plugin.Features.Features
	if !features.ConsumableCapacity {
		state = exclusive(state)
	}
	allocator, err := structured.NewAllocator(context.Background(), features, state, classes{t.snapshot},
		t.snapshot.ResourceSlices(), t.plugin.compiled)
	t.allocator = allocator
	return err
}

// exclusive takes shared devices for allocated as a whole.
func exclusive(state structured.AllocatedState) structured.AllocatedState {
	all := state.AllocatedDevices.Clone()
	for id := range state.AllocatedSharedDeviceIDs {
		all.Insert(id.GetDeviceID())
	}
	return structured.AllocatedState{AllocatedDevices: all, AggregatedCapacity: structured.NewConsumedCapacityCollection()}
}

// classes is the structured.DeviceClassLister of a snapshot.
type classes struct{ snapshot *snapshot.Snapshot }

func (c classes) List() ([]*resourcev1.DeviceClass, error) { return c.snapshot.DeviceClasses(), nil }

func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if class := c.snapshot.DeviceClass(name); class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclass"), name)
}

// Check allocates on a node.
func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	found, ok := t.results[n.Name]
	if !ok {
		found = t.check(n)
		t.results[n.Name] = found
	}
	return found.refusal
}

func (t *test) check(n *snapshot.Node) result {
	var found result
	if t.special >= 0 {
		if found.refusal = t.fitExtended(n, &found); found.refusal != nil {
			return found
		}
		if found.special == nil && len(t.claims) == 1 { // the node has the resources without claims
			return found
		}
	}
	unavailable := t.unavailableOn(n)
	if t.allocator != nil {
		if found.refusal = t.allocate(n, &found); found.refusal != nil {
			return found
		}
	}
	if len(unavailable) > 0 {
		t.unavailable = append(t.unavailable, unavailable...)
		found.refusal = refuse(reasonUnavailable)
	}
	return found
}

// unavailableOn returns the allocated claims that a node can't use, or whose devices have failed to become ready.
func (t *test) unavailableOn(n *snapshot.Node) []int {
	var some []int
	for i, claim := range t.claims {
		switch {
		case t.selectors[i] != nil && !t.selectors[i].Match(n.Obj):
			some = append(some, i)
		case claim.Status.Allocation != nil && t.plugin.Features.DeviceBindingAndStatus &&
			gaveUp(claim, t.plugin.BindingTimeout, t.plugin.Clock.Now()):
			some = append(some, i)
		}
	}
	return some
}

// allocate fills in the allocations of a node.
func (t *test) allocate(n *snapshot.Node, found *result) *cycle.Refusal {
	var wanted []*resourcev1.ResourceClaim
	var at []int
	for i, claim := range t.claims {
		switch {
		case claim.Status.Allocation != nil, i == t.special && found.special == nil:
			continue
		case i == t.special:
			claim = found.special
		}
		wanted, at = append(wanted, claim), append(at, i)
	}
	ctx := context.Background()
	if t.plugin.Features.FilterTimeout && t.plugin.FilterTimeout > 0 {
		limited, cancel := context.WithTimeout(ctx, t.plugin.FilterTimeout)
		defer cancel()
		ctx = limited
	}
	got, err := t.allocator.Allocate(ctx, n.Obj, wanted)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return refuse(reasonTimeout)
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return refuse(err.Error())
	case err != nil: // of a claim or class that is wrong on every node
		return failed(err)
	case len(got) != len(wanted):
		return refuse(reasonCannotAllocate)
	}
	found.allocations = make([]*resourcev1.AllocationResult, len(t.claims))
	for k, i := range at {
		found.allocations[i] = &got[k]
	}
	return nil
}

// Keep returns what is to be written for the node; nil for nothing.
func (t *test) Keep(n *snapshot.Node) any {
	found := t.results[n.Name]
	p := &plan{special: -1, mappings: found.mappings}
	for i, claim := range t.claims {
		var allocation *resourcev1.AllocationResult
		if found.allocations != nil {
			allocation = found.allocations[i]
		}
		if i == t.special {
			if found.special == nil {
				continue
			}
			p.special, claim = len(p.claims), found.special
		}
		p.claims = append(p.claims, claim)
		p.allocations = append(p.allocations, allocation)
	}
	if len(p.claims) == 0 {
		return nil
	}
	return p
}
