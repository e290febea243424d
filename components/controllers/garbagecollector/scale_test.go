package garbagecollector

import (
	"fmt"
	"testing"
)

// comeAndGo has n dependents of one owner come, and go after it or, foreground, before it, and counts the tasks.
func comeAndGo(n int, foreground bool) (tasks int) {
	g := newGraph()
	tasks += len(g.put(thing("owner")))
	for i := range n {
		tasks += len(g.put(thing(fmt.Sprint(i), "owner")))
	}
	if foreground {
		tasks += len(g.put(going(thing("owner"))))
	} else {
		tasks += len(g.remove("owner"))
	}
	for i := range n {
		tasks += len(g.remove(thing(fmt.Sprint(i)).uid))
	}
	return tasks
}

// TestTasksGrowWithObjects: each further object makes as many tasks as the first ones.
func TestTasksGrowWithObjects(t *testing.T) {
	for _, foreground := range []bool{false, true} {
		few, many := comeAndGo(100, foreground), comeAndGo(10_000, foreground)
		if few == 0 || many > 100*few {
			t.Errorf("foreground %v: %d tasks for 100 objects, %d for 10,000", foreground, few, many)
		}
	}
}

// BenchmarkGraph shows whether the time for each object is the same in a graph of a hundred times as many.
func BenchmarkGraph(b *testing.B) {
	for _, n := range []int{1_500, 150_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				comeAndGo(n, false)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/object")
		})
	}
}
