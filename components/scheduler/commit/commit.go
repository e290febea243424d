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
	// Observer, if not nil, is told what the plug-ins take.
	Observer Observer
}

// Reserve runs the Reserve plug-ins until one fails; the caller then calls Unreserve.
func (f *Profile) Reserve(ctx context.Context, p *Placement) *Status {
	return f.at("Reserve", func() *Status {
		for _, plugin := range f.Reserves {
			run := func() *Status { return plugin.Reserve(ctx, p) }
			if status := f.ask(p, "Reserve", plugin.Name(), run); status != nil {
				return status
			}
		}
		return nil
	})
}

// Unreserve takes all reservations back, in reverse order.
func (f *Profile) Unreserve(ctx context.Context, p *Placement) {
	_ = f.at("Unreserve", func() *Status {
		for _, plugin := range slices.Backward(f.Reserves) {
			_ = f.ask(p, "Unreserve", plugin.Name(), func() *Status {
				plugin.Unreserve(ctx, p)
				return nil
			})
		}
		return nil
	})
}

// Permit runs the Permit plug-ins until one refuses. It returns true for a pod that has to wait, which is in Waiting
// from then on, until WaitOnPermit returns or Forget is called.
func (f *Profile) Permit(ctx context.Context, p *Placement) (bool, *Status) {
	var waits map[string]time.Duration
	status := f.at("Permit", func() (status *Status) {
		waits, status = f.permit(ctx, p)
		return status
	})
	if status != nil || waits == nil {
		return false, status
	}
	f.Waiting.add(p.Pod.Obj, waits)
	return true, nil
}

// permit returns how long the pod waits for which plug-ins; nil for none.
func (f *Profile) permit(ctx context.Context, p *Placement) (map[string]time.Duration, *Status) {
	var waits map[string]time.Duration
	for _, plugin := range f.Permits {
		var wait time.Duration
		status := f.ask(p, "Permit", plugin.Name(), func() (status *Status) {
			wait, status = plugin.Permit(ctx, p)
			return status
		})
		if status != nil {
			return nil, status
		}
		if wait > 0 {
			if waits == nil {
				waits = map[string]time.Duration{}
			}
			waits[plugin.Name()] = min(wait, maxPermitWait)
		}
	}
	return waits, nil
}

// WaitOnPermit waits until the pod is allowed by all plug-ins that had it wait, or refused by one.
func (f *Profile) WaitOnPermit(ctx context.Context, p *Placement) *Status {
	w := f.Waiting.Get(p.Pod.UID())
	if w == nil {
		return nil
	}
	defer f.Waiting.remove(p.Pod.UID())
	began := f.Waiting.clock.Now()
	var status *Status
	select {
	case status = <-w.decided:
	case <-ctx.Done():
		status = Failed("", ctx.Err())
	}
	if f.Observer != nil {
		f.Observer.Waited(status.label(), began)
	}
	return status
}

// PreFlight tells whether a PreBind plug-in has something to do for the pod.
func (f *Profile) PreFlight(ctx context.Context, p *Placement) (bool, *Status) {
	needed := false
	status := f.at("PreBindPreFlight", func() *Status {
		for _, plugin := range f.PreBinds {
			does, status := plugin.PreFlight(ctx, p)
			if status != nil {
				return named(status, "PreBindPreFlight", plugin.Name())
			}
			needed = needed || does
		}
		return nil
	})
	return needed && status == nil, status
}

// PreBind runs the PreBind plug-ins that have something to do, until one fails.
func (f *Profile) PreBind(ctx context.Context, p *Placement) *Status {
	return f.at("PreBind", func() *Status {
		for _, plugin := range f.PreBinds {
			does, status := plugin.PreFlight(ctx, p)
			if status != nil {
				return named(status, "PreBind", plugin.Name())
			}
			if !does {
				continue
			}
			run := func() *Status { return plugin.PreBind(ctx, p) }
			if status := f.ask(p, "PreBind", plugin.Name(), run); status != nil {
				return status
			}
		}
		return nil
	})
}

var errUnbound = errors.New("no Bind plug-in takes the pod")

// Bind has the first plug-in that takes the pod bind it.
func (f *Profile) Bind(ctx context.Context, p *Placement) *Status {
	return f.at("Bind", func() *Status {
		for _, plugin := range f.Binds {
			var took bool
			status := f.ask(p, "Bind", plugin.Name(), func() (status *Status) {
				took, status = plugin.Bind(ctx, p)
				return status
			})
			if status != nil || took {
				return status
			}
		}
		return Failed("", errUnbound)
	})
}

// PostBind tells the PostBind plug-ins.
func (f *Profile) PostBind(ctx context.Context, p *Placement) {
	_ = f.at("PostBind", func() *Status {
		for _, plugin := range f.PostBinds {
			_ = f.ask(p, "PostBind", plugin.Name(), func() *Status {
				plugin.PostBind(ctx, p)
				return nil
			})
		}
		return nil
	})
}

// named adds the plug-in to a status, and to an unexpected failure what it was doing.
func named(status *Status, point, plugin string) *Status {
	if status == nil {
		return nil
	}
	out := *status
	out.Plugin = plugin
	if out.Err != nil {
		out.Err = fmt.Errorf("running %s plugin %q: %w", point, plugin, out.Err)
	}
	return &out
}
