// Package usage makes rates of what kubelets tell: of the last two points of a node or container come its CPU usage and
// its working set, with the time between them as window
// (https://kubernetes-sigs.github.io/metrics-server/). It is pure: time comes with the points.
package usage

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// freshAge is the least age of a container at which one point is enough: the other is its start.
const freshAge = 10 * time.Second

// Point is what a node or container used, as it was measured at one time.
type Point struct {
	// At is when it was measured, Started when the container began; zero for a node.
	At, Started time.Time
	// CPU is the CPU time since the start, and Memory the working set in bytes.
	CPU    time.Duration
	Memory uint64
}

// complete tells whether both values are known; what runs uses some of each.
func (p Point) complete() bool { return p.CPU > 0 && p.Memory > 0 }

// Batch is one scrape of all nodes.
type Batch struct {
	Nodes map[string]Point
	// Pods have their containers by name.
	Pods map[types.NamespacedName]map[string]Point
}

// NewBatch returns an empty batch.
func NewBatch() Batch {
	return Batch{Nodes: map[string]Point{}, Pods: map[types.NamespacedName]map[string]Point{}}
}

// Merge adds the points of another batch.
func (b Batch) Merge(o Batch) {
	maps.Copy(b.Nodes, o.Nodes)
	maps.Copy(b.Pods, o.Pods)
}

// DropIncomplete removes nodes of which a value is missing, and pods of which one of any container is: their sum would
// be wrong.
func (b Batch) DropIncomplete() {
	maps.DeleteFunc(b.Nodes, func(_ string, p Point) bool { return !p.complete() })
	maps.DeleteFunc(b.Pods, func(_ types.NamespacedName, containers map[string]Point) bool {
		for _, p := range containers {
			if !p.complete() {
				return true
			}
		}
		return false
	})
}

// Rate is the usage within the window that ends at At.
type Rate struct {
	At     time.Time
	Window time.Duration
	// NanoCores is the CPU usage in billionths of a core, and Memory the working set in bytes.
	NanoCores, Memory uint64
}

// Container is the usage of a container.
type Container struct {
	Name string
	Rate
}

// State is what the last two batches told. It is a value that does not change; the zero value knows nothing.
type State struct {
	last, previous Batch
}

// Next is the state after a further batch. resolution is the time between batches: a container that is younger needs no
// second point. Nodes and pods that the batch doesn't have are forgotten.
func (s State) Next(b Batch, resolution time.Duration) State {
	next := State{last: b, previous: NewBatch()}
	for name, now := range b.Nodes {
		last, known := s.last.Nodes[name]
		previous, older := s.previous.Nodes[name]
		if p, ok := base(now, last, known, previous, older); ok {
			next.previous.Nodes[name] = p
		}
	}
	for pod, containers := range b.Pods {
		bases := map[string]Point{}
		for name, now := range containers {
			age := now.At.Sub(now.Started)
			if age >= min(freshAge, resolution) && age < resolution {
				bases[name] = Point{At: now.Started, Started: now.Started, Memory: now.Memory}
				continue
			}
			last, known := s.last.Pods[pod][name]
			if known && !now.Started.Before(last.At) {
				continue // it is another container, which started since
			}
			previous, older := s.previous.Pods[pod][name]
			if p, ok := base(now, last, known, previous, older); ok {
				bases[name] = p
			}
		}
		if len(bases) > 0 {
			next.previous.Pods[pod] = bases
		}
	}
	return next
}

// base is the point that the rate of a new one begins at: the last one, or the one before if the new one is the last
// again, as the kubelet measured nothing since.
func base(now, last Point, known bool, previous Point, older bool) (Point, bool) {
	switch {
	case !known:
		return Point{}, false
	case now.At.After(last.At):
		return last, true
	case older && previous.At.Before(now.At):
		return previous, true
	}
	return Point{}, false
}

// rate fails if the CPU time decreased: something else is measured now.
func rate(last, previous Point) (Rate, bool) {
	window := last.At.Sub(previous.At)
	if window <= 0 || last.CPU < previous.CPU {
		return Rate{}, false
	}
	return Rate{At: last.At, Window: window, Memory: last.Memory,
		NanoCores: uint64(float64(last.CPU-previous.CPU) / window.Seconds())}, true
}

// Node is the usage of a node, if it is known.
func (s State) Node(name string) (Rate, bool) {
	previous, known := s.previous.Nodes[name]
	if !known {
		return Rate{}, false
	}
	return rate(s.last.Nodes[name], previous)
}

// Pod is the usage of those containers of a pod that have two points, by name. The time and the window of a pod are
// those of its earliest point.
func (s State) Pod(pod types.NamespacedName) []Container {
	var all []Container
	for name, previous := range s.previous.Pods[pod] {
		if r, ok := rate(s.last.Pods[pod][name], previous); ok {
			all = append(all, Container{Name: name, Rate: r})
		}
	}
	slices.SortFunc(all, func(a, b Container) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Ready tells whether there is a rate of any node or pod.
func (s State) Ready() bool { return len(s.previous.Nodes) > 0 || len(s.previous.Pods) > 0 }

// Points counts the nodes and containers of the last batch.
func (s State) Points() (nodes, containers int) {
	for _, pod := range s.last.Pods {
		containers += len(pod)
	}
	return len(s.last.Nodes), containers
}
