package nodelifecycle

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/controllers/nodes"
)

// zoneState tells how much of a zone is lost
// (https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction).
type zoneState int

const (
	normal zoneState = iota
	partial
	full
)

// rates are how many nodes a second may be emptied.
type rates struct {
	Normal, Secondary float64
	// Large is the number of nodes up to which a partly lost zone is not touched at all.
	Large int
	// Threshold is the share of lost nodes that makes a zone partly lost.
	Threshold float64
}

func zoneOf(node *v1.Node) string {
	region, zone := node.Labels[v1.LabelTopologyRegion], node.Labels[v1.LabelTopologyZone]
	return region + "/" + zone
}

type zone struct {
	size  int
	state zoneState
}

// survey tells the state of each zone, and whether all of them are lost: then it is more likely this manager that
// is cut off, and nothing is evicted.
func survey(all []*v1.Node, threshold float64) (zones map[string]zone, blind bool) {
	lost := map[string]int{}
	zones = map[string]zone{}
	for _, node := range all {
		if nodes.Condition(node, v1.NodeReady) == nil {
			continue
		}
		name := zoneOf(node)
		z := zones[name]
		z.size++
		zones[name] = z
		if nodes.Ready(node) != v1.ConditionTrue {
			lost[name]++
		}
	}
	blind = len(zones) > 0
	for name, z := range zones {
		switch count := lost[name]; {
		case count == z.size:
			z.state = full
		case count > 2 && float64(count)/float64(z.size) >= threshold:
			z.state = partial
		}
		blind = blind && z.state == full
		zones[name] = z
	}
	return zones, blind
}

func (r rates) of(z zone) float64 {
	if z.state != partial {
		return r.Normal
	}
	if z.size > r.Large {
		return r.Secondary
	}
	return 0
}

// bucket lets one node through at once and then rate nodes a second.
type bucket struct {
	tokens float64
	filled time.Time
}

func (b *bucket) take(rate float64, now time.Time) bool {
	if b.filled.IsZero() {
		b.tokens = 1
	} else {
		b.tokens = min(1, b.tokens+now.Sub(b.filled).Seconds()*rate)
	}
	b.filled = now
	if rate <= 0 || b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
