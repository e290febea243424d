package hollow

import (
	"errors"
	"reflect"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// A container uses what its script says while it runs. The machine's CPU time keeps that of containers that are gone.
func TestUsage(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	e := New(Options{Clock: now})
	if err := e.SetPodCIDRs(t.Context(), []string{"10.1.0.0/24"}); err != nil {
		t.Fatal(err)
	}
	id := start(t, e, map[string]string{CPU: "1500m", Memory: "3Mi"})
	now.Step(10 * time.Second)
	want := runtime.Usage{CPU: 15 * time.Second, MemoryBytes: 3 << 20, WorkingSetBytes: 3 << 20, At: now.Now()}
	if got, err := e.Stats(t.Context(), id); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("container: %+v, %v", got, err)
	}
	machine := func(cpu time.Duration, memory uint64) {
		t.Helper()
		want := runtime.Usage{CPU: cpu, MemoryBytes: memory, WorkingSetBytes: memory, At: now.Now()}
		if got, err := e.MachineStats(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("machine: %+v, %v, want %+v", got, err, want)
		}
	}
	machine(15*time.Second+100*time.Millisecond, 67<<20)
	if err := e.Stop(t.Context(), id, time.Second); err != nil {
		t.Fatal(err)
	}
	if got, err := e.Stats(t.Context(), id); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("a container that ended: %+v, %v", got, err)
	}
	now.Step(10 * time.Second)
	machine(15*time.Second+200*time.Millisecond, 64<<20)
	if err := e.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	machine(15*time.Second+200*time.Millisecond, 64<<20)
}
