package podtopologyspread

import (
	"math"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// ignored marks nodes that lack a label and get the worst score.
const ignored = -1

// Score prefers domains with fewer pods; domains count more the more of them there are.
func (f *Plugin) Score(p *snapshot.Pod, s *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool {
	constraints, allKeys, ok := f.soft(p, s)
	if !ok {
		return false
	}
	in := newInclusion(p.Obj, s, constraints, allKeys)
	relevant := nodes
	if allKeys {
		relevant = nil
	}
	for i, n := range nodes {
		scores[i] = 0
		if !allKeys {
			continue
		}
		if lacks(in.columns, n) {
			scores[i] = ignored
			continue
		}
		relevant = append(relevant, n)
	}
	sums := make([]float64, len(nodes))
	for i := range constraints {
		add(p, s, &constraints[i], in, nodes, relevant, sums)
	}
	for i := range nodes {
		if scores[i] != ignored {
			scores[i] = int64(math.Round(sums[i]))
		}
	}
	normalize(scores)
	return true
}

// soft are the ScheduleAnyway constraints; allKeys tells that nodes must have the labels of all of them.
func (f *Plugin) soft(p *snapshot.Pod, s *snapshot.Snapshot) (constraints []constraint, allKeys, ok bool) {
	if len(p.Obj.Spec.TopologySpreadConstraints) > 0 {
		constraints, err := own(p.Obj, v1.ScheduleAnyway)
		return constraints, true, err == nil && len(constraints) > 0
	}
	constraints = f.defaults(p, s, v1.ScheduleAnyway)
	return constraints, !f.AnyTopology, len(constraints) > 0
}

func lacks(columns []*snapshot.Column, n *snapshot.Node) bool {
	for _, column := range columns {
		if column.Of[n.Index] < 0 {
			return true
		}
	}
	return false
}

// add adds the score of one constraint to each node's.
func add(p *snapshot.Pod, s *snapshot.Snapshot, c *constraint, in *inclusion, nodes, relevant []*snapshot.Node,
	sums []float64) {
	column := s.Column(c.key)
	wanted := make([]bool, len(column.Values))
	domains := 0
	for _, n := range relevant {
		if domain := column.Of[n.Index]; domain >= 0 && !wanted[domain] {
			wanted[domain] = true
			domains++
		}
	}
	hostname := c.key == v1.LabelHostname
	if hostname {
		domains = len(relevant)
	}
	pods := make([]int, len(column.Values))
	c.count(p.Obj.Namespace, s, func(n *snapshot.Node, count int) {
		domain := column.Of[n.Index]
		if domain >= 0 && wanted[domain] && (hostname || in.includes(c, n)) {
			pods[domain] += count
		}
	})
	weight := math.Log(float64(domains + 2))
	for i, n := range nodes {
		if domain := column.Of[n.Index]; domain >= 0 {
			sums[i] += float64(pods[domain])*weight + float64(c.maxSkew-1)
		}
	}
}

// normalize maps the highest count to the lowest score, and ignored nodes to none.
func normalize(scores []int64) {
	least, most := int64(math.MaxInt64), int64(0)
	for _, score := range scores {
		if score != ignored {
			least, most = min(least, score), max(most, score)
		}
	}
	for i, score := range scores {
		switch {
		case score == ignored:
			scores[i] = 0
		case most == 0:
			scores[i] = cycle.MaxScore
		default:
			scores[i] = cycle.MaxScore * (most + least - score) / most
		}
	}
}
