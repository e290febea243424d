package bench

import (
	"slices"
	"testing"
)

// TestPortsDiffer asks for so many that the kernel would give one twice if they weren't held.
func TestPortsDiffer(t *testing.T) {
	const many = 500
	ports, err := freePorts(many)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if different := len(slices.Compact(ports)); different != many {
		t.Errorf("%d of %d ports are different", different, many)
	}
}
