package server

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// countedDisks tells how often it was asked.
type countedDisks struct {
	n   int64
	err error
}

func (c *countedDisks) Disk(context.Context, string) (runtime.DiskUsage, error) {
	c.n++
	return runtime.DiskUsage{Written: c.n}, c.err
}

func TestDisksAreMeasuredNowAndThen(t *testing.T) {
	c, meter, d := clocktesting.NewFakeClock(time.Unix(0, 0)), &countedDisks{}, &disks{}
	for i, step := range []struct {
		wait time.Duration
		id   string
		want int64
	}{
		{0, "a", 1}, {59 * time.Second, "a", 1}, {0, "b", 2}, {time.Second, "a", 3}, {0, "b", 2}, {time.Minute, "b", 4},
	} {
		c.Step(step.wait)
		if got, err := d.of(t.Context(), meter, c, step.id); err != nil || got.Written != step.want {
			t.Errorf("step %d: %+v, %v", i, got, err)
		}
	}
	c.Step(time.Hour)
	if _, err := d.of(t.Context(), meter, c, "c"); err != nil || len(d.known) != 1 {
		t.Errorf("%d containers are remembered, %v", len(d.known), err)
	}
	meter.err = errors.New("gone")
	if _, err := d.of(t.Context(), meter, c, "d"); err == nil {
		t.Error("a failure is not told")
	}
	if _, err := d.of(t.Context(), meter, c, "c"); err != nil {
		t.Errorf("what is known: %v", err)
	}
}
