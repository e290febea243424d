// Package mixed runs some members of a cluster in this process, and the others in containers.
package mixed

import (
	"context"
	"errors"
	"sync"

	"quintet.dev/quintet/cluster/internal/backend"
)

// Outer runs the members in containers.
type Outer interface {
	backend.Backend
	// HostAddress is the address at which containers reach this process. It fails where the engine is on another machine.
	// It is valid once Prepare or Add returned.
	HostAddress(ctx context.Context) (string, error)
}

// Config of a back end.
type Config struct {
	Outer Outer
	// Reached tells whether containers must reach members of this process: they then listen on the HostAddress.
	Reached bool
	// NewInner makes the back end of this process, whose members listen on an address of this machine; "" is the loopback.
	NewInner func(host string) backend.Backend
}

// Mixed is a backend.Backend.
type Mixed struct {
	config Config

	mu    sync.Mutex
	inner backend.Backend // made by Prepare
	both  addressing
}

// New makes a back end; it owns the outer one.
func New(c Config) *Mixed {
	return &Mixed{config: c, both: addressing{inside: map[string]bool{}}}
}

// Prepare makes room for the members in containers first, as their network tells the address of this process.
func (m *Mixed) Prepare(ctx context.Context, members []backend.Placement) (backend.Addressing, error) {
	var inside, outside []backend.Placement
	names := map[string]bool{}
	for _, p := range members {
		if p.InProcess {
			inside, names[p.Name] = append(inside, p), true
		} else {
			outside = append(outside, p)
		}
	}
	outer, err := m.config.Outer.Prepare(ctx, outside)
	if err != nil {
		return nil, err
	}
	host := ""
	if m.config.Reached {
		if host, err = m.config.Outer.HostAddress(ctx); err != nil {
			return nil, err
		}
	}
	made := m.config.NewInner(host)
	inner, err := made.Prepare(ctx, inside)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inner, m.both = made, addressing{Addressing: outer, inner: inner, inside: names}
	return m.both, err
}

// Attachment implements backend.Joinable.
func (m *Mixed) Attachment(ctx context.Context) (backend.Attachment, error) {
	joinable, ok := m.config.Outer.(backend.Joinable)
	if !ok {
		return backend.Attachment{}, backend.ErrUnsupported
	}
	attachment, err := joinable.Attachment(ctx)
	if err != nil {
		return backend.Attachment{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.both.Addressing = attachment.Addressing
	attachment.Addressing = m.both
	return attachment, nil
}

// Joined implements backend.Joinable.
func (m *Mixed) Joined(ctx context.Context) ([]backend.Instance, error) {
	joinable, ok := m.config.Outer.(backend.Joinable)
	if !ok {
		return nil, nil
	}
	return joinable.Joined(ctx)
}

// of returns the back end that a member is on.
func (m *Mixed) of(member string) backend.Backend {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.both.inside[member] {
		return m.inner
	}
	return m.config.Outer
}

// Start implements backend.Backend.
func (m *Mixed) Start(ctx context.Context, member backend.Member) (backend.Instance, error) {
	return m.of(member.Name).Start(ctx, member)
}

// Add implements backend.Backend.
func (m *Mixed) Add(ctx context.Context, p backend.Placement) (backend.Addressing, error) {
	if !p.InProcess {
		outer, err := m.config.Outer.Add(ctx, p)
		if err != nil {
			return nil, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.both.Addressing = outer
		return m.both, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	inner, err := m.inner.Add(ctx, p)
	if err != nil {
		return nil, err
	}
	next := map[string]bool{p.Name: true}
	for name := range m.both.inside {
		next[name] = true
	}
	m.both.inner, m.both.inside = inner, next
	return m.both, nil
}

// Load gives the image to the machines in containers; those of this process have every image.
func (m *Mixed) Load(ctx context.Context, ref string, machines []backend.Instance) error {
	return m.config.Outer.Load(ctx, ref, m.outside(machines))
}

// LoadArchive is as Load.
func (m *Mixed) LoadArchive(ctx context.Context, file string, machines []backend.Instance) error {
	return m.config.Outer.LoadArchive(ctx, file, m.outside(machines))
}

func (m *Mixed) outside(machines []backend.Instance) []backend.Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	var outside []backend.Instance
	for _, machine := range machines {
		if !m.both.inside[machine.Name()] {
			outside = append(outside, machine)
		}
	}
	return outside
}

// Push implements backend.Backend.
func (m *Mixed) Push(ctx context.Context, ref, name string, to backend.Instance, r backend.Registry) (string, error) {
	return m.of(to.Name()).Push(ctx, ref, name, to, r)
}

// Endpoint implements backend.Backend.
func (m *Mixed) Endpoint(ctx context.Context, of backend.Instance, usual int) (string, error) {
	return m.of(of.Name()).Endpoint(ctx, of, usual)
}

// Remove implements backend.Backend.
func (m *Mixed) Remove(ctx context.Context, i backend.Instance) error {
	return m.of(i.Name()).Remove(ctx, i)
}

// HostAddress implements Outer.
func (m *Mixed) HostAddress(ctx context.Context) (string, error) {
	return m.config.Outer.HostAddress(ctx)
}

// Close ends all members at once: those on either side wait for requests of the other when they end.
func (m *Mixed) Close(ctx context.Context) error {
	inner := make(chan error, 1)
	go func() { inner <- m.closeInner(ctx) }()
	outer := m.config.Outer.Close(ctx)
	return errors.Join(<-inner, outer)
}

// Release ends the members of this process, and leaves those in containers alone.
func (m *Mixed) Release() error {
	return errors.Join(m.closeInner(context.Background()), m.config.Outer.Release())
}

func (m *Mixed) closeInner(ctx context.Context) error {
	m.mu.Lock()
	inner := m.inner
	m.mu.Unlock()
	if inner == nil {
		return nil
	}
	return inner.Close(ctx)
}

// addressing is a backend.Addressing of all members: that of the containers, but for those of this process.
type addressing struct {
	backend.Addressing
	inner  backend.Addressing
	inside map[string]bool
}

func (a addressing) of(member string) backend.Addressing {
	if a.inside[member] {
		return a.inner
	}
	return a.Addressing
}

func (a addressing) Dir(member string) string            { return a.of(member).Dir(member) }
func (a addressing) Host(member string) string           { return a.of(member).Host(member) }
func (a addressing) IPs(member string) []string          { return a.of(member).IPs(member) }
func (a addressing) Port(member string, usual int) int   { return a.of(member).Port(member, usual) }
func (a addressing) Endpoint(m string, usual int) string { return a.of(m).Endpoint(m, usual) }
