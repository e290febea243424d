package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxPermitWait bounds how long a pod waits for permission.
const maxPermitWait = 15 * time.Minute

// Profile is an ordered set of plug-ins. It is safe for concurrent use.
type Profile struct {
	Reserves  []Reserve
	Permits   []Permit
	PreBinds  []PreBind
	Binds     []Bind
	PostBinds []PostBind
	// Waiting holds the pods that wait for permission; it is shared by all profiles.
	Waiting *Waiting
}

// Reserve runs the Reserve plug-ins until one fails; the caller then calls Unreserve.
func (f *Profile) Reserve(ctx context.Context, p *Placement) *Status {
	for _, plugin := range f.Reserves {
		if status := plugin.Reserve(ctx, p); status != nil {
			return named(status, "Reserve", plugin.Name())
		}
	}
	return nil
}

// Unreserve takes all reservations back, in reverse order.
func (f *Profile) Unreserve(ctx context.Context, p *Placement) {
	for _, plugin := range slices.Backward(f.Reserves) {
		plugin.Unreserve(ctx, p)
	}
}

// Permit runs the Permit plug-ins until one refuses. It returns true for a pod that has to wait, which is in Waiting
// from then on, until WaitOnPermit returns or Forget is called.
func (f *Profile) Permit(ctx context.Context, p *Placement) (bool, *Status) {
	var waits map[string]time.Duration
	for _, plugin := range f.Permits {
		wait, status := plugin.Permit(ctx, p)
		if status != nil {
			return false, named(status, "Permit", plugin.Name())
		}
		if wait > 0 {
			if waits == nil {
				waits = map[string]time.Duration{}
			}
			waits[plugin.Name()] = min(wait, maxPermitWait)
		}
	}
	if waits == nil {
		return false, nil
	}
	f.Waiting.add(p.Pod.Obj, waits)
	return true, nil
}

// WaitOnPermit waits until the pod is allowed by all plug-ins that had it wait, or refused by one.
func (f *Profile) WaitOnPermit(ctx context.Context, p *Placement) *Status {
	w := f.Waiting.Get(p.Pod.UID())
	if w == nil {
		return nil
	}
	defer f.Waiting.remove(p.Pod.UID())
	select {
	case status := <-w.decided:
		return status
	case <-ctx.Done():
		return Failed("", ctx.Err())
	}
}

// PreFlight tells whether a PreBind plug-in has something to do for the pod.
func (f *Profile) PreFlight(ctx context.Context, p *Placement) (bool, *Status) {
	needed := false
	for _, plugin := range f.PreBinds {
		does, status := plugin.PreFlight(ctx, p)
		if status != nil {
			return false, named(status, "PreBindPreFlight", plugin.Name())
		}
		needed = needed || does
	}
	return needed, nil
}

// PreBind runs the PreBind plug-ins that have something to do, until one fails.
func (f *Profile) PreBind(ctx context.Context, p *Placement) *Status {
	for _, plugin := range f.PreBinds {
		does, status := plugin.PreFlight(ctx, p)
		if status == nil && does {
			status = plugin.PreBind(ctx, p)
		}
		if status != nil {
			return named(status, "PreBind", plugin.Name())
		}
	}
	return nil
}

var errUnbound = errors.New("no Bind plug-in takes the pod")

// Bind has the first plug-in that takes the pod bind it.
func (f *Profile) Bind(ctx context.Context, p *Placement) *Status {
	for _, plugin := range f.Binds {
		took, status := plugin.Bind(ctx, p)
		if status != nil {
			return named(status, "Bind", plugin.Name())
		}
		if took {
			return nil
		}
	}
	return Failed("", errUnbound)
}

// PostBind tells the PostBind plug-ins.
func (f *Profile) PostBind(ctx context.Context, p *Placement) {
	for _, plugin := range f.PostBinds {
		plugin.PostBind(ctx, p)
	}
}

// named adds the plug-in to a status, and to an unexpected failure what it was doing.
func named(status *Status, point, plugin string) *Status {
	out := *status
	out.Plugin = plugin
	if out.Err != nil {
		out.Err = fmt.Errorf("running %s plugin %q: %w", point, plugin, out.Err)
	}
	return &out
}
