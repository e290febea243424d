// Package commit carries out a decision: reserve, permit, pre-bind, bind, post-bind, and unreserve in reverse order
// when one of them fails. The extension points are those of the scheduling framework
// (https://kubernetes.io/docs/concepts/scheduling-eviction/scheduling-framework/).
package commit

import (
	"context"
	"errors"
	"strings"
	"time"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Placement is a decision that is being carried out. One goroutine at a time uses it.
type Placement struct {
	Pod  *snapshot.Pod
	Node string
	// Kept is what the filters decided besides, by plug-in (cycle.Keeper).
	Kept map[string]any
	// State is what the profile's Begin returned for the attempt.
	State any
	// Measure tells the profile's observer of each plug-in.
	Measure bool
	// Snapshot calls a function with the snapshot, which may be read and changed until it returns.
	Snapshot func(func(*snapshot.Snapshot))
	// Record records an event about the pod; its kind is Normal or Warning.
	Record func(kind, reason, action, note string)
}

// Status is why a decision can't be carried out; nil is success.
type Status struct {
	Plugin string
	// Reasons and Unresolvable are as in a cycle.Refusal. Err is set instead for an unexpected failure.
	Reasons      []string
	Unresolvable bool
	Err          error
	// Pending tells that the pod waits for something that the plug-in has started: it is tried again without back-off.
	Pending bool
	// Preempted tells that the pod gave way to another one: no plug-in refused it.
	Preempted bool
}

// Failed is the status of an unexpected failure.
func Failed(plugin string, err error) *Status { return &Status{Plugin: plugin, Err: err} }

// Error returns the failure or the reasons.
func (s *Status) Error() error {
	if s.Err != nil {
		return s.Err
	}
	return errors.New(strings.Join(s.Reasons, ", "))
}

// Message renders the status as upstream's scheduler does, for conditions and events.
func (s *Status) Message() string {
	if s.Err != nil {
		return s.Err.Error()
	}
	counts := map[string]int{}
	for _, reason := range s.Reasons {
		counts[reason]++
	}
	return cycle.Summary(1, counts)
}

// Reserve is a plug-in that keeps something for a pod as soon as its node is chosen.
type Reserve interface {
	Name() string
	Reserve(ctx context.Context, p *Placement) *Status
	// Unreserve takes Reserve back; it is called even if Reserve failed or was not reached, and must not fail.
	Unreserve(ctx context.Context, p *Placement)
}

// Permit is a plug-in that allows a pod to be bound, refuses it, or has it wait.
type Permit interface {
	Name() string
	// Permit returns how long the pod waits for Allow at most; 0 for not at all.
	Permit(ctx context.Context, p *Placement) (time.Duration, *Status)
}

// PreBind is a plug-in that prepares the node or the cluster for a pod.
type PreBind interface {
	Name() string
	// PreFlight tells whether PreBind has something to do. It does no I/O.
	PreFlight(ctx context.Context, p *Placement) (bool, *Status)
	PreBind(ctx context.Context, p *Placement) *Status
}

// Bind is a plug-in that binds pods.
type Bind interface {
	Name() string
	// Bind returns false for a pod that it leaves to the next plug-in.
	Bind(ctx context.Context, p *Placement) (bool, *Status)
}

// PostBind is a plug-in that is told of bound pods.
type PostBind interface {
	Name() string
	PostBind(ctx context.Context, p *Placement)
}
