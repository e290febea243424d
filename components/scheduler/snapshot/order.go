package snapshot

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// interleave orders nodes by name within their zone and takes one of each zone in turn.
func interleave(nodes map[string]*Node) []*Node {
	zones := map[string][]*Node{}
	total := 0
	for _, n := range nodes {
		if n.Obj == nil {
			continue
		}
		zone := n.Obj.Labels[v1.LabelTopologyRegion] + "\x00" + n.Obj.Labels[v1.LabelTopologyZone]
		zones[zone] = append(zones[zone], n)
		total++
	}
	names := make([]string, 0, len(zones))
	for name, members := range zones {
		names = append(names, name)
		slices.SortFunc(members, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	}
	slices.Sort(names)
	order := make([]*Node, 0, total)
	for round := 0; len(order) < total; round++ {
		for _, name := range names {
			if round < len(zones[name]) {
				n := zones[name][round]
				n.Index = len(order)
				order = append(order, n)
			}
		}
	}
	return order
}

// Column is one label of all nodes: the value of node i is Values[Of[i]], and Of[i] is -1 where it has none.
type Column struct {
	Values []string
	Of     []int32
	ids    map[string]int32
}

// ID returns the index of value in Values, or -1.
func (c *Column) ID(value string) int32 {
	if id, ok := c.ids[value]; ok {
		return id
	}
	return -1
}

// Column returns one label of all nodes, in the order of Nodes. It is kept until a node changes its shape.
func (s *Snapshot) Column(label string) *Column {
	nodes := s.Nodes()
	if c, ok := s.columns[label]; ok {
		return c
	}
	c := &Column{Of: make([]int32, len(nodes)), ids: map[string]int32{}}
	for i, n := range nodes {
		value, ok := n.Label(label)
		if !ok {
			c.Of[i] = -1
			continue
		}
		id, known := c.ids[value]
		if !known {
			id = int32(len(c.Values))
			c.ids[value] = id
			c.Values = append(c.Values, value)
		}
		c.Of[i] = id
	}
	s.columns[label] = c
	return c
}
