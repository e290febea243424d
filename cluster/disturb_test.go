package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/clockfile"
)

// TestFaultsOfThisProcess: what can't be meant in process says so.
func TestFaultsOfThisProcess(t *testing.T) {
	c, _ := started(t, WithNodes(1))
	ctx := t.Context()
	server, node := c.Member("apiserver-0"), c.Node(1)
	for name, fault := range map[string]func() (Heal, error){
		"cut":   func() (Heal, error) { return c.Cut(ctx, server, node) },
		"delay": func() (Heal, error) { return c.Delay(ctx, server, time.Second, 0) },
		"lose":  func() (Heal, error) { return c.Lose(ctx, server, 0.5) },
		"fill":  func() (Heal, error) { return c.FillDisk(ctx, server, 0) },
	} {
		if _, err := fault(); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "apiserver-0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"part": second(c.Lose(ctx, server, 1.5)), "delay": second(c.Delay(ctx, server, 0, 0)),
		"jitter": second(c.Delay(ctx, server, 1, 2)), "missing": second(c.ShiftClock(ctx, c.Node(7), 1)),
		"one member": second(c.Cut(ctx, server, server)), "free": second(c.FillDisk(ctx, server, -1)),
	} {
		if err == nil || errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ Heal, err error) error { return err }

// TestShiftClock: a member's program reads another time, as long as the fault is not healed.
func TestShiftClock(t *testing.T) {
	clocks := make(chan clock.PassiveClock, 1)
	c, _ := started(t, WithNodes(0), WithProgram(Scheduler, func(ctx context.Context, env Env) error {
		clocks <- env.Clock
		return env.Original(ctx, env)
	}))
	read := <-clocks
	off := func() time.Duration { return time.Until(read.Now()).Round(time.Hour) }
	if off() != 0 {
		t.Errorf("off by %v", off())
	}
	one, err := c.ShiftClock(t.Context(), c.Member("scheduler-0"), 5*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	two, err := c.ShiftClock(t.Context(), c.Member("scheduler-0"), -2*time.Hour)
	if err != nil || off() != 3*time.Hour {
		t.Errorf("off by %v, %v", off(), err)
	}
	for range 2 {
		if err := errors.Join(one(t.Context()), two(t.Context())); err != nil || off() != 0 {
			t.Errorf("healed: off by %v, %v", off(), err)
		}
	}
}

// TestShiftClockOfOpened: a cluster that Open took hold of shifts the clocks of its containers, too, and adds to what
// another process shifted.
func TestShiftClockOfOpened(t *testing.T) {
	const file = clockDir + "/" + clockfile.Offset
	instance := &fakeInstance{backend: &fakeBackend{}, name: "scheduler-0",
		files: map[string][]byte{file: clockfile.Format(time.Hour)}} // not running, so that no program need answer
	c := &Cluster{config: newConfig("opened")}
	c.setMembers([]*Member{{name: "scheduler-0", component: Scheduler, instance: instance}})
	heal, err := c.ShiftClock(t.Context(), c.Member("scheduler-0"), 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(instance.files[file]); got != "3h0m0s\n" {
		t.Errorf("shifted: %q", got)
	}
	if err := heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := string(instance.files[file]); got != "1h0m0s\n" {
		t.Errorf("healed: %q", got)
	}
}
