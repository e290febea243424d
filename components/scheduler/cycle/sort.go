package cycle

import (
	"slices"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

func sortByIndex(nodes []*snapshot.Node) {
	slices.SortFunc(nodes, func(a, b *snapshot.Node) int { return a.Index - b.Index })
}
