// Package nodettl tells kubelets, in an annotation of their Nodes, for how many seconds they may keep Secrets and
// ConfigMaps before they fetch them again: longer in larger clusters.
package nodettl

// step is how long things are kept in clusters of some sizes. The ranges overlap, so that a cluster at a border
// doesn't go back and forth.
type step struct {
	least, most int // nodes
	seconds     int
}

var steps = []step{
	{0, 100, 0},
	{90, 500, 15},
	{450, 1000, 30},
	{900, 2000, 60},
	{1800, int(^uint(0) >> 1), 300},
}

// next returns the step of a cluster with this many nodes that was on step current.
func next(current, nodes int) int {
	for nodes > steps[current].most {
		current++
	}
	for nodes < steps[current].least {
		current--
	}
	return current
}
