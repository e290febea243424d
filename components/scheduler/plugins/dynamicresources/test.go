package dynamicresources

import (
	"context"
	"errors"
	"slices"

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
	allocated bool      // some claim is
	allocates bool      // some claim is to be

	state       structured.AllocatedState
	wanted      map[string]*wanted
	fresh       map[string]result // of nodes that were asked for this pod; they do not depend on the pods there
	unavailable []int             // allocated claims that refused a node
}

// wanted is what is to be allocated on nodes with the same extended resources.
type wanted struct {
	special  *resourcev1.ResourceClaim // with the requests for these nodes; nil if they need none
	mappings []v1.ContainerExtendedResourceRequest
	claims   []*resourcev1.ResourceClaim
	at       []int        // their indexes in test.claims
	answers  *nodeAnswers // nil if they can't be kept
}

// result is what the allocator found for a node.
type result struct {
	answer
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

// prepare looks up which devices are allocated.
func (t *test) prepare() {
	t.state = t.snapshot.Allocated()
	if !t.plugin.Features.ConsumableCapacity {
		t.state = exclusive(t.state)
	}
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

// Check tells whether the claims can be allocated on a node.
func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	w, refusal := t.wantedOn(n)
	if refusal != nil {
		return refusal
	}
	if w.special == nil && t.special >= 0 && len(t.claims) == 1 { // the node has the resources without claims
		return nil
	}
	if t.allocates {
		if refusal := t.ask(n, w).refusal; refusal != nil {
			return refusal
		}
	}
	if t.allocated && t.refusesSome(n) {
		return refuse(reasonUnavailable)
	}
	return nil
}

// refusesSome notes the allocated claims that a node can't use, or whose devices have failed to become ready.
func (t *test) refusesSome(n *snapshot.Node) bool {
	some := false
	for i, claim := range t.claims {
		switch {
		case t.selectors[i] != nil && !t.selectors[i].Match(n.Obj):
		case claim.Status.Allocation != nil && t.plugin.Features.DeviceBindingAndStatus &&
			gaveUp(claim, t.plugin.BindingTimeout, t.plugin.Clock.Now()):
		default:
			continue
		}
		some = true
		if !slices.Contains(t.unavailable, i) {
			t.unavailable = append(t.unavailable, i)
		}
	}
	return some
}

// wantedOn returns what is to be allocated on a node, or why it lacks extended resources.
func (t *test) wantedOn(n *snapshot.Node) (*wanted, *cycle.Refusal) {
	var served []servedResource
	if t.special >= 0 {
		all, refusal := t.servedOn(n)
		if refusal != nil {
			return nil, refusal
		}
		served = all
	}
	key := ""
	for _, r := range served {
		key += string(r.name) + "=" + r.class + ","
	}
	w := t.wanted[key]
	if w == nil {
		w = t.want(served)
		t.wanted[key] = w
	}
	return w, nil
}

// want collects what is to be allocated where classes serve some extended resources.
func (t *test) want(served []servedResource) *wanted {
	w := &wanted{}
	if len(served) > 0 {
		w.special = t.claims[t.special].DeepCopy()
		w.special.Spec.Devices.Requests, w.mappings = requestsFor(t.pod.Obj, served)
	}
	for i, claim := range t.claims {
		switch {
		case claim.Status.Allocation != nil, i == t.special && w.special == nil:
			continue
		case i == t.special:
			claim = w.special
		}
		w.claims, w.at = append(w.claims, claim), append(w.at, i)
	}
	if key, ok := keyOf(w.claims); ok {
		w.answers = t.plugin.answers.find(t.snapshot, key)
	}
	return w
}

// ask returns a node's answer to what is wanted of it: one that still holds, or what the allocator says.
func (t *test) ask(n *snapshot.Node, w *wanted) answer {
	version := t.snapshot.DeviceVersion(n.Name)
	if w.answers != nil {
		if known := w.answers.get(n.Obj, version); known != nil {
			return known.answer
		}
	}
	found, ok := t.fresh[n.Name]
	if ok {
		return found.answer
	}
	found = t.allocate(n, w)
	t.fresh[n.Name] = found
	if w.answers != nil && found.lasts() {
		w.answers.put(n.Obj, version, found.answer)
	}
	return found.answer
}

// lasts tells whether the allocator would say the same another time.
func (r result) lasts() bool {
	return r.refusal == nil || r.refusal.Err == nil && r.refusal != timedOutRefusal
}

var timedOutRefusal = refuse(reasonTimeout)

// allocate has the allocator try a node.
func (t *test) allocate(n *snapshot.Node, w *wanted) result {
	no := func(refusal *cycle.Refusal) result { return result{answer: answer{refusal: refusal}} }
	ctx := context.Background()
	if t.plugin.Features.FilterTimeout && t.plugin.FilterTimeout > 0 {
		limited, cancel := context.WithTimeout(ctx, t.plugin.FilterTimeout)
		defer cancel()
		ctx = limited
	}
	allocator, err := structured.NewAllocator(ctx, t.plugin.Features.Features, t.state, classes{t.snapshot},
		t.snapshot.SlicesFor(n.Name), t.plugin.compiled)
	if err != nil {
		return no(failed(err))
	}
	got, err := allocator.Allocate(ctx, n.Obj, w.claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return no(timedOutRefusal)
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return no(refuse(err.Error()))
	case err != nil: // of a claim or class that is wrong on every node
		return no(failed(err))
	case len(got) != len(w.claims):
		return no(cannotAllocate)
	}
	found := result{allocations: make([]*resourcev1.AllocationResult, len(t.claims))}
	for k, i := range w.at {
		found.allocations[i] = &got[k]
	}
	found.rank = rank(t.claims, found.allocations)
	return found
}

var cannotAllocate = refuse(reasonCannotAllocate)

// Keep returns what is to be written for the node; nil for nothing. Where the answer of the node was known, the devices
// are chosen only now.
func (t *test) Keep(n *snapshot.Node) any {
	w, refusal := t.wantedOn(n)
	if refusal != nil {
		return nil
	}
	p := &plan{special: -1, mappings: w.mappings}
	var found result
	if len(w.claims) > 0 {
		known, ok := t.fresh[n.Name]
		if found = known; !ok {
			found = t.allocate(n, w)
		}
		p.failed = found.refusal
	}
	for i, claim := range t.claims {
		var allocation *resourcev1.AllocationResult
		if found.allocations != nil {
			allocation = found.allocations[i]
		}
		if i == t.special {
			if w.special == nil {
				continue
			}
			p.special, claim = len(p.claims), w.special
		}
		p.claims = append(p.claims, claim)
		p.allocations = append(p.allocations, allocation)
	}
	if len(p.claims) == 0 {
		return nil
	}
	return p
}
