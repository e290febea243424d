package cache

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
)

// TestUnshared: what is alike in many objects lies in memory once, but the first few are written without looking for
// it.
func TestUnshared(t *testing.T) {
	f := startMemory(t)
	schedulers := map[*byte]int{}
	for i := range 3 * unshared {
		p := pod("a", fmt.Sprintf("p%d", i), "")
		p.Spec.SchedulerName = strings.Repeat("s", 40)
		e, err := f.pods.Create(f.ctx, f.pods.Key("a", p.Name), p, 0)
		f.must(err)
		schedulers[unsafe.StringData(e.Object.(*corev1.Pod).Spec.SchedulerName)]++
	}
	most := 0
	for _, n := range schedulers {
		most = max(most, n)
	}
	// The first that is looked at is noted, the second is kept, and all others are given its.
	if alone := len(schedulers) - 1; most != 2*unshared-1 || alone != unshared+1 {
		t.Errorf("%d objects share their scheduler's name and %d don't, want %d and %d", most, alone, 2*unshared-1,
			unshared+1)
	}
}
