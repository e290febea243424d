package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

const (
	// lookInterval is the time between two looks at claims, which are known from a watch.
	lookInterval = 50 * time.Millisecond
	// informerTimeout is how long a claim that was created may take to appear in the watch.
	informerTimeout = 2 * time.Minute
	// undoTimeout bounds what is taken back of a placement that ended early.
	undoTimeout = 30 * time.Second
)

// plan is what is to be written before the pod is bound.
type plan struct {
	claims      []*resourcev1.ResourceClaim    // replaced by what was written
	allocations []*resourcev1.AllocationResult // by claim; nil for those that were allocated before
	special     int                            // index of the claim for extended resources, or -1
	mappings    []v1.ContainerExtendedResourceRequest
	failed      *cycle.Refusal              // the allocator's, after it had found devices before
	pending     []*resourcev1.ResourceClaim // by claim, after Reserve; nil for what is not pending any more
}

func planOf(p *commit.Placement) *plan {
	decided, _ := p.Kept[Name].(*plan)
	return decided
}

// Reserve has the devices count as allocated.
func (f *Plugin) Reserve(_ context.Context, p *commit.Placement) *commit.Status {
	todo := planOf(p)
	if todo == nil {
		return nil
	}
	if err := todo.err(); err != nil {
		return commit.Failed(Name, err)
	}
	todo.pending = make([]*resourcev1.ResourceClaim, len(todo.claims))
	p.Snapshot(func(s *snapshot.Snapshot) {
		for i, claim := range todo.claims {
			if todo.allocations[i] == nil {
				continue
			}
			todo.pending[i] = allocatedAs(claim, todo.allocations[i])
			s.BeginAllocation(todo.pending[i])
		}
	})
	return nil
}

// err tells why there is nothing to write.
func (t *plan) err() error {
	switch {
	case t.failed == nil:
		return nil
	case t.failed.Err != nil:
		return t.failed.Err
	}
	return errors.New(strings.Join(t.failed.Reasons, ", "))
}

func allocatedAs(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) *resourcev1.ResourceClaim {
	claim = claim.DeepCopy()
	if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
	}
	claim.Status.Allocation = allocation
	return claim
}

// Unreserve frees the devices whose allocation was not written, and the claims from their reservation for the pod.
func (f *Plugin) Unreserve(ctx context.Context, p *commit.Placement) {
	todo := planOf(p)
	if todo == nil {
		return
	}
	p.Snapshot(func(s *snapshot.Snapshot) {
		for i := range todo.pending {
			todo.settle(s, i)
		}
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	for i, claim := range todo.claims {
		switch {
		case i == todo.special && claim.Name != unwritten:
			f.undo(ctx, claim, f.delete(ctx, claim))
		case i != todo.special && claim.Status.Allocation != nil && reserved(claim, p.Pod.Obj):
			f.undo(ctx, claim, f.release(ctx, claim, p.Pod.Obj))
		}
	}
}

// settle ends a pending allocation.
func (t *plan) settle(s *snapshot.Snapshot, i int) {
	if i < len(t.pending) && t.pending[i] != nil {
		s.EndAllocation(t.pending[i])
		t.pending[i] = nil
	}
}

// PreFlight tells whether the pod has claims.
func (*Plugin) PreFlight(_ context.Context, p *commit.Placement) (bool, *commit.Status) {
	return planOf(p) != nil, nil
}

// PreBind writes allocations and reservations, and waits until all devices are ready.
func (f *Plugin) PreBind(ctx context.Context, p *commit.Placement) *commit.Status {
	todo := planOf(p)
	for i, claim := range todo.claims {
		if reserved(claim, p.Pod.Obj) {
			continue
		}
		if err := f.bind(ctx, p, todo, i); err != nil {
			return commit.Failed(Name, err)
		}
	}
	if !f.Features.DeviceBindingAndStatus || !slices.ContainsFunc(todo.claims, waits) {
		return nil
	}
	p.Record(v1.EventTypeNormal, "BindingConditionsPending", "Scheduling",
		fmt.Sprintf("waiting for binding conditions for device on node %s", p.Node))
	began, drivers := f.Clock.Now(), awaited(todo.claims)
	err := f.awaitReady(ctx, p, todo)
	if f.Awaited != nil {
		for _, driver := range drivers {
			f.Awaited(p.Pod.Obj.Spec.SchedulerName, driver, outcomeOf(err), f.Clock.Since(began))
		}
	}
	if err != nil {
		return commit.Failed(Name, err)
	}
	return nil
}

// bind writes one claim.
func (f *Plugin) bind(ctx context.Context, p *commit.Placement, todo *plan, i int) error {
	claim := todo.claims[i]
	if i == todo.special && claim.Name == unwritten {
		created, err := f.create(ctx, claim)
		if err != nil {
			return err
		}
		claim, todo.claims[i] = created, created // Unreserve deletes it
	}
	written, err := f.write(ctx, claim, todo.allocations[i], p.Pod.Obj)
	if err != nil {
		return err
	}
	todo.claims[i] = written
	if err := f.adopt(ctx, p, todo, i); err != nil {
		return err
	}
	if i == todo.special {
		return f.tellPod(ctx, p.Pod.Obj, written.Name, todo.mappings)
	}
	return nil
}

// adopt replaces a pending allocation by what was written. Of a claim that was created just now, it waits until the
// watch tells of it: until then, the pending allocation is all that keeps others from its devices. One that the watch
// never tells of is an error, upon which Unreserve deletes it.
func (f *Plugin) adopt(ctx context.Context, p *commit.Placement, todo *plan, i int) error {
	ctx, cancel := context.WithTimeout(ctx, informerTimeout)
	defer cancel()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		done := false
		p.Snapshot(func(s *snapshot.Snapshot) {
			if done = s.WroteResourceClaim(todo.claims[i]) || i != todo.special; done {
				todo.settle(s, i)
			}
		})
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("claim %s does not appear in the watch: %w", todo.claims[i].Name, ctx.Err())
		case <-ticker.C:
		}
	}
}

var errBindingTimeout = errors.New("device binding timeout")

// claimTimeout is errBindingTimeout of the claim that it names.
type claimTimeout string

func (c claimTimeout) Error() string     { return "claim " + string(c) + " binding timeout" }
func (c claimTimeout) Is(err error) bool { return err == errBindingTimeout }

// awaitReady waits for the binding conditions of all devices.
func (f *Plugin) awaitReady(ctx context.Context, p *commit.Placement, todo *plan) error {
	ctx, cancel := context.WithTimeout(ctx, f.BindingTimeout)
	defer cancel()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		done, err := f.allReady(p, todo)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return errBindingTimeout
			}
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (f *Plugin) allReady(p *commit.Placement, todo *plan) (bool, error) {
	for i, claim := range todo.claims {
		name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		p.Snapshot(func(s *snapshot.Snapshot) { claim = s.ResourceClaim(name) })
		if claim == nil {
			return false, apierrors.NewNotFound(resourcev1.Resource("resourceclaim"), name.Name)
		}
		todo.claims[i] = claim
		is, err := ready(claim)
		switch {
		case err != nil:
			return false, err
		case is:
		case timedOut(claim, f.BindingTimeout, f.Clock.Now()):
			return false, claimTimeout(claim.Name)
		default:
			return false, nil
		}
	}
	return true, nil
}
