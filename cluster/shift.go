package cluster

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"k8s.io/utils/clock"

	quintetclock "quintet.dev/quintet/clock"
	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/internal/clockfile"
)

// ShiftClock puts the clock of a member forward by d, or back if d is negative, until it is healed: what its programs
// read as the time is off, and their timers run as before, as on a machine whose clock was set. Shifts of one member
// add up. In a container, it reaches Quintet's programs, on a node all of them but the engine (and neither pods nor
// other images); it outlives restarts of the member, and a member that does not run has it from its next start. In
// process, it reaches components and programs (WithProgram). What reads the time of its machine can't be shifted: etcd,
// the registry and images of others.
func (c *Cluster) ShiftClock(ctx context.Context, m *Member, d time.Duration) (Heal, error) {
	if m.missing != nil {
		return nil, m.missing
	}
	what := fmt.Sprintf("shift the clock of %s", m.name)
	if why, ok := realTimeOnly[m.component]; ok {
		return nil, fmt.Errorf("%s: %w: %s", what, ErrUnsupported, why)
	}
	shift := func(_ context.Context, by time.Duration) error { c.shifts.add(m.name, by); return nil }
	if !c.config.inThisProcess(m.component) {
		shift = func(ctx context.Context, by time.Duration) error { return c.shifts.addToFile(ctx, m, by) }
	}
	if err := shift(ctx, d); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	var mu sync.Mutex
	healed := false
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if healed {
			return nil
		}
		if err := shift(ctx, -d); err != nil {
			return fmt.Errorf("heal: %s: %w", what, err)
		}
		healed = true
		return nil
	}, nil
}

// realTimeOnly says why components have the time of their machine.
var realTimeOnly = map[Component]string{
	Etcd: "etcd is a library that reads the time of its machine; its leases and elections go by timers, which no shift " +
		"of a clock disturbs",
	Registry:      "it is a library that reads the time of its machine",
	disk:          "it runs no program that reads the time",
	faultInjector: "it disturbs others",
}

// clockDir has a member's files by which its clock is shifted, see clockfile.
const clockDir = "clock"

// appliedWithin is how long a program gets to say that it shifted its clock.
const appliedWithin = 20 * clockfile.Every

// shifts are how far the clocks of members are off. The zero value is ready; it is safe for concurrent use.
type shifts struct {
	mu  sync.Mutex
	off map[string]time.Duration // of the members in this process

	files sync.Mutex // held while the file of a container is read and written
}

func (s *shifts) add(member string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off == nil {
		s.off = map[string]time.Duration{}
	}
	s.off[member] += d
}

func (s *shifts) of(member string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off[member]
}

// addToFile shifts the clock of a container, and returns when its program has it. A program that does not answer keeps
// its clock, and the file is as it was.
func (s *shifts) addToFile(ctx context.Context, m *Member, d time.Duration) error {
	s.files.Lock()
	defer s.files.Unlock()
	before, err := m.offset(ctx, clockfile.Offset)
	if err != nil {
		return err
	}
	write := func(ctx context.Context, off time.Duration) error {
		return m.instance.WriteFile(ctx, path.Join(clockDir, clockfile.Offset), clockfile.Format(off))
	}
	if err := write(ctx, before+d); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, appliedWithin)
	defer cancel()
	err = until(waiting, func(ctx context.Context) error { return m.applied(ctx, before+d) })
	if err == nil {
		return nil
	}
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	return errors.Join(err, write(cleaning, before))
}

// applied is nil once the member's program has a clock that is off by so much, or will have it when it runs.
func (m *Member) applied(ctx context.Context, off time.Duration) error {
	state, err := m.instance.State(ctx)
	if err != nil {
		return err
	}
	if !state.Running || state.Paused {
		return nil
	}
	program := string(m.component)
	if m.component == Node {
		program = "kubelet"
	}
	has, err := m.offset(ctx, clockfile.Applied(program))
	if err == nil && has != off {
		err = fmt.Errorf("%w: %s of its image does not follow; Quintet's programs do", ErrUnsupported, program)
	}
	return err
}

// offset reads a file with a duration, 0 if there is none.
func (m *Member) offset(ctx context.Context, name string) (time.Duration, error) {
	content, err := m.instance.ReadFile(ctx, path.Join(clockDir, name))
	if errors.Is(err, backend.ErrNoFile) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return clockfile.Parse(content)
}

// clock is the member's in this process: base, and how far it is off.
func (s *shifts) clock(member string, base clock.WithTickerAndDelayedExecution) clock.WithTickerAndDelayedExecution {
	return quintetclock.Shifted(base, func() time.Duration { return s.of(member) })
}
