package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"quintet.dev/quintet/cluster/internal/backend"
)

// stopGrace is what a member gets to end by itself.
const stopGrace = 10 * time.Second

// ErrUnsupported is returned by verbs that this kind of cluster can't carry out.
var ErrUnsupported = backend.ErrUnsupported

// Member is one process or machine of a cluster. A Member that does not exist answers every verb with an error.
type Member struct {
	name      string
	component Component
	instance  backend.Instance
	missing   error

	mu sync.Mutex
	// companions share the member's network, and have none once it ended; guarded by mu.
	companions []*Member
}

// ExecResult is how a command inside a member ended.
type ExecResult = backend.ExecResult

// State of a member.
type State = backend.State

// Member finds a member by name, e.g. "apiserver-1".
func (c *Cluster) Member(name string) *Member {
	var names []string
	for _, m := range c.Members() {
		if m.name == name {
			return m
		}
		names = append(names, m.name)
	}
	return &Member{name: name, missing: fmt.Errorf("cluster %s has no member %q; it has %v", c.config.name,
		name, names)}
}

// Node finds the i-th node; nodes count from 1. Its name is also that of its Node object.
func (c *Cluster) Node(i int) *Member { return c.Member(fmt.Sprintf("node-%d", i)) }

// Members lists all members: etcd first, nodes last.
func (c *Cluster) Members() []*Member {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.members)
}

func (c *Cluster) setMembers(members []*Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = members
}

// Component finds all members of a component.
func (c *Cluster) Component(component Component) Group {
	group := Group{component: component}
	for _, m := range c.Members() {
		if m.component == component {
			group.Members = append(group.Members, m)
		}
	}
	return group
}

// Name is the member's name, e.g. "scheduler-0".
func (m *Member) Name() string { return m.name }

// Component is what the member is one of.
func (m *Member) Component() Component { return m.component }

// Start runs a stopped or killed member again, at its old address and with its old data.
func (m *Member) Start(ctx context.Context) error {
	if err := m.do(func(i backend.Instance) error { return i.Start(ctx) }); err != nil {
		return err
	}
	for _, companion := range m.allCompanions() {
		if err := companion.Restart(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *Member) allCompanions() []*Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.companions)
}

func (m *Member) addCompanion(companion *Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.companions = append(m.companions, companion)
}

func (m *Member) dropCompanion(companion *Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.companions = slices.DeleteFunc(m.companions, func(other *Member) bool { return other == companion })
}

// Stop stops the member gracefully, waits, and kills it after ten seconds, or a node after what
// WithGracefulNodeShutdown gives it.
func (m *Member) Stop(ctx context.Context) error {
	return m.do(func(i backend.Instance) error { return i.Stop(ctx, stopGrace) })
}

// Kill ends the member without a warning, like a crash.
func (m *Member) Kill(ctx context.Context) error {
	return m.do(func(i backend.Instance) error { return i.Kill(ctx) })
}

// Pause freezes the member: its connections stay open, and nothing answers. One that is paused stays so.
func (m *Member) Pause(ctx context.Context) error {
	return m.do(func(i backend.Instance) error { return i.Pause(ctx) })
}

// Unpause ends Pause, if the member is paused.
func (m *Member) Unpause(ctx context.Context) error {
	return m.do(func(i backend.Instance) error { return i.Unpause(ctx) })
}

// Restart stops and starts the member.
func (m *Member) Restart(ctx context.Context) error {
	if err := m.Stop(ctx); err != nil {
		return err
	}
	return m.Start(ctx)
}

// Exec runs a command inside the member; stdin may be nil. A command that ran and failed is no error.
func (m *Member) Exec(ctx context.Context, command []string, stdin io.Reader) (ExecResult, error) {
	if m.missing != nil {
		return ExecResult{}, m.missing
	}
	return m.instance.Exec(ctx, command, stdin)
}

// Logs copies what the member wrote; with follow, until it ends or ctx does.
func (m *Member) Logs(ctx context.Context, follow bool, to io.Writer) error {
	return m.do(func(i backend.Instance) error { return i.Logs(ctx, follow, to) })
}

// State tells whether the member runs.
func (m *Member) State(ctx context.Context) (State, error) {
	if m.missing != nil {
		return State{}, m.missing
	}
	return m.instance.State(ctx)
}

func (m *Member) do(verb func(backend.Instance) error) error {
	if m.missing != nil {
		return m.missing
	}
	return verb(m.instance)
}

// Group is all members of a component; its verbs are carried out on each, one after the other.
type Group struct {
	Members   []*Member
	component Component
}

// Start runs stopped or killed members again.
func (g Group) Start(ctx context.Context) error {
	return g.each(func(m *Member) error { return m.Start(ctx) })
}

// Stop stops the members gracefully.
func (g Group) Stop(ctx context.Context) error {
	return g.each(func(m *Member) error { return m.Stop(ctx) })
}

// Kill ends the members without a warning.
func (g Group) Kill(ctx context.Context) error {
	return g.each(func(m *Member) error { return m.Kill(ctx) })
}

// Pause freezes the members.
func (g Group) Pause(ctx context.Context) error {
	return g.each(func(m *Member) error { return m.Pause(ctx) })
}

// Unpause ends Pause.
func (g Group) Unpause(ctx context.Context) error {
	return g.each(func(m *Member) error { return m.Unpause(ctx) })
}

// Restart stops and starts the members.
func (g Group) Restart(ctx context.Context) error {
	return g.each(func(m *Member) error { return m.Restart(ctx) })
}

// Logs copies what the members wrote, one after the other.
func (g Group) Logs(ctx context.Context, to io.Writer) error {
	return g.each(func(m *Member) error { return m.Logs(ctx, false, to) })
}

func (g Group) each(verb func(*Member) error) error {
	if len(g.Members) == 0 {
		return fmt.Errorf("the cluster has no %s", g.component)
	}
	var errs []error
	for _, m := range g.Members {
		errs = append(errs, verb(m))
	}
	return errors.Join(errs...)
}
