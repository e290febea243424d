package discovery

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/util/sort"
)

type (
	groupDescription    = apidiscoveryv2.APIGroupDiscovery
	versionDescription  = apidiscoveryv2.APIVersionDiscovery
	resourceDescription = apidiscoveryv2.APIResourceDiscovery
	viewDescription     = apidiscoveryv2.APISubresourceDiscovery
)

// merge joins what this server and others tell (KEP-4020). All servers come to the same: they are taken in the order of
// their IDs, and orders that several agree on are kept.
func merge(id string, own []groupDescription, peers map[string][]groupDescription) []groupDescription {
	if len(peers) == 0 {
		return own
	}
	all := maps.Clone(peers)
	all[id] = own
	var lists [][]groupDescription
	for _, id := range slices.Sorted(maps.Keys(all)) {
		lists = append(lists, all[id])
	}
	return join(lists, func(g groupDescription) string { return g.Name }, mergeGroups)
}

// join merges lists of what has names.
func join[T any](lists [][]T, name func(T) string, both func(a, b T) T) []T {
	merged := map[string]T{}
	var orders [][]string
	same := true // in all lists
	for _, list := range lists {
		var order []string
		for _, item := range list {
			n := name(item)
			order = append(order, n)
			if former, ok := merged[n]; ok {
				item = both(former, item)
			}
			merged[n] = item
		}
		orders = append(orders, order)
		same = same && slices.Equal(order, orders[0])
	}
	order := orders[0]
	if !same {
		order = sort.MergePreservingRelativeOrder(orders)
	}
	var out []T
	for _, n := range order {
		if item, ok := merged[n]; ok {
			out = append(out, item)
			delete(merged, n)
		}
	}
	return out
}

func mergeGroups(a, b groupDescription) groupDescription {
	a.Versions = join([][]versionDescription{a.Versions, b.Versions},
		func(v versionDescription) string { return v.Version }, mergeVersions)
	return a
}

func mergeVersions(a, b versionDescription) versionDescription {
	a.Resources = join([][]resourceDescription{a.Resources, b.Resources},
		func(r resourceDescription) string { return r.Resource }, mergeResources)
	return a
}

// mergeResources makes of a resource what can be done with it at either of two servers.
func mergeResources(a, b resourceDescription) resourceDescription {
	if reflect.DeepEqual(a, b) {
		return a
	}
	a.Verbs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.Verbs, b.Verbs))))
	views := map[string]viewDescription{}
	for _, view := range slices.Concat(a.Subresources, b.Subresources) {
		views[view.Subresource] = view
	}
	a.Subresources = slices.SortedFunc(maps.Values(views), func(x, y viewDescription) int {
		return strings.Compare(x.Subresource, y.Subresource)
	})
	return a
}
