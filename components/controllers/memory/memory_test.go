package memory

import (
	"maps"
	"testing"
)

func TestMemory(t *testing.T) {
	var m Memory[string, int]
	expect := func(key string, want map[string]int) {
		t.Helper()
		if got := m.Of(key); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	expect("a", nil)
	m.Add("a", map[string]int{"x": 1, "y": 2}, nil)
	m.Add("b", map[string]int{"x": 3}, nil)
	m.Of("a")["x"] = 7 // a copy
	expect("a", map[string]int{"x": 1, "y": 2})
	old := func(_ string, n int) bool { return n < 2 }
	m.Add("a", nil, old)
	expect("a", map[string]int{"x": 1, "y": 2})
	m.Add("a", map[string]int{"z": 0}, old)
	expect("a", map[string]int{"y": 2, "z": 0})
	m.Forget("a")
	expect("a", nil)
	expect("b", map[string]int{"x": 3})
}
