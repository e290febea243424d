package noderesources

import (
	"math"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// BalancedName is the name of the plug-in Balanced.
const BalancedName = "NodeResourcesBalancedAllocation"

// Resource and how much it counts.
type Resource struct {
	Name   v1.ResourceName
	Weight int64
}

// DefaultResources are those that are scored unless configured.
func DefaultResources() []Resource {
	return []Resource{{v1.ResourceCPU, 1}, {v1.ResourceMemory, 1}}
}

// Strategy scores one resource of a node, 0 to cycle.MaxScore, by what would be taken of it and what there is.
type Strategy struct {
	Resources []Resource
	Rate      func(taken, allocatable int64) int64
	// Ratio is how RequestedToCapacityRatio averages: it rounds, and leaves out resources that score 0.
	Ratio bool
}

// LeastAllocated prefers empty nodes.
func LeastAllocated(taken, allocatable int64) int64 {
	if taken > allocatable {
		return 0
	}
	return (allocatable - taken) * cycle.MaxScore / allocatable
}

// MostAllocated prefers full nodes.
func MostAllocated(taken, allocatable int64) int64 {
	return min(taken, allocatable) * cycle.MaxScore / allocatable
}

// Point of a Shape: at Utilization, 0 to 100, the Score is 0 to 10.
type Point struct{ Utilization, Score int64 }

// Shape returns a rate that follows a broken line through points, which are in order of utilization.
func Shape(points []Point) func(taken, allocatable int64) int64 {
	const scale = cycle.MaxScore / 10
	return func(taken, allocatable int64) int64 {
		at := int64(100)
		if taken <= allocatable {
			at = taken * 100 / allocatable
		}
		for i, p := range points {
			if at > p.Utilization {
				continue
			}
			if i == 0 {
				return p.Score * scale
			}
			before := points[i-1]
			return scale*before.Score +
				scale*(p.Score-before.Score)*(at-before.Utilization)/(p.Utilization-before.Utilization)
		}
		return points[len(points)-1].Score * scale
	}
}

// Score averages the strategy's resources by weight.
func (f *Fit) Score(p *snapshot.Pod, s *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool {
	resources := scored(p, f.Strategy.Resources)
	devices := f.devicesFor(s, resources)
	for i, n := range nodes {
		var sum, weights int64
		for _, r := range resources {
			taken, allocatable := use(p, n, r.Name)
			if served := devices[r.Name]; served != nil && allocatable == 0 {
				count := served.of(n)
				taken, allocatable = count.taken+p.Requests.Of(r.Name), count.total
			}
			if allocatable == 0 {
				continue
			}
			score := f.Strategy.Rate(taken, allocatable)
			if f.Strategy.Ratio && score == 0 {
				continue
			}
			sum += r.Weight * score
			weights += r.Weight
		}
		scores[i] = f.Strategy.average(sum, weights)
	}
	return true
}

func (s *Strategy) average(sum, weights int64) int64 {
	switch {
	case weights == 0:
		return 0
	case s.Ratio:
		return int64(math.Round(float64(sum) / float64(weights)))
	}
	return sum / weights
}

// scored leaves out extended resources that the pod does not request.
func scored(p *snapshot.Pod, resources []Resource) []Resource {
	for i, r := range resources {
		if scalar(r.Name) && p.Requests.Scalar[r.Name] == 0 {
			kept := append([]Resource(nil), resources[:i]...)
			for _, r := range resources[i:] {
				if !scalar(r.Name) || p.Requests.Scalar[r.Name] != 0 {
					kept = append(kept, r)
				}
			}
			return kept
		}
	}
	return resources
}

// scalar tells the resources that are counted by their names.
func scalar(name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return false
	}
	return true
}

// use is the requested amount of a resource with the pod on the node, with defaults for pods without requests.
func use(p *snapshot.Pod, n *snapshot.Node, name v1.ResourceName) (taken, allocatable int64) {
	switch name {
	case v1.ResourceCPU:
		return n.Scored.CPU + p.Scored.CPU, n.Allocatable.CPU
	case v1.ResourceMemory:
		return n.Scored.Memory + p.Scored.Memory, n.Allocatable.Memory
	}
	return n.Requested.Of(name) + p.Requests.Of(name), n.Allocatable.Of(name)
}

// Balanced prefers nodes where the shares of the resources in use come closest to each other.
type Balanced struct{ Resources []Resource }

// Name returns BalancedName.
func (*Balanced) Name() string { return BalancedName }

// Hints are none: it refuses nothing.
func (*Balanced) Hints() []queue.Hint { return nil }

// Score compares the deviation with the pod to that without it; pods that request nothing have no preference.
func (b *Balanced) Score(p *snapshot.Pod, _ *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool {
	asks := false
	for _, r := range b.Resources {
		asks = asks || p.Requests.Of(r.Name) > 0
	}
	if !asks {
		return false
	}
	resources := scored(p, b.Resources)
	for i, n := range nodes {
		var shares, before [8]float64
		with, without := shares[:0], before[:0]
		for _, r := range resources {
			allocatable := n.Allocatable.Of(r.Name)
			if allocatable == 0 {
				continue
			}
			taken := n.Requested.Of(r.Name)
			without = append(without, min(float64(taken)/float64(allocatable), 1))
			with = append(with, min(float64(taken+p.Requests.Of(r.Name))/float64(allocatable), 1))
		}
		scores[i] = balance(with, without)
	}
	return true
}

// balance is 75 when the pod changes nothing, up to 100 when it makes the node more even, down to 50 when less.
func balance(with, without []float64) int64 {
	const unchanged = cycle.MaxScore * 3 / 4
	return int64(unchanged + (deviation(without)-deviation(with))*cycle.MaxScore/2)
}

func deviation(shares []float64) float64 {
	switch len(shares) {
	case 0, 1:
		return 0
	case 2:
		return math.Abs(shares[0]-shares[1]) / 2
	}
	var sum float64
	for _, share := range shares {
		sum += share
	}
	mean := sum / float64(len(shares))
	var squares float64
	for _, share := range shares {
		squares += (share - mean) * (share - mean)
	}
	return math.Sqrt(squares / float64(len(shares)))
}
