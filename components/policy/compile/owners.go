package compile

import (
	"net/netip"
	"slices"

	"quintet.dev/quintet/components/policy/model"
)

// owner returns the pod that an address belongs to, or nil.
func (x *Index) owner(addr netip.Addr) *Pod {
	if owners := x.owners[addr]; len(owners) > 0 {
		return owners[0]
	}
	return nil
}

// updateOwner replaces a state of a pod by another, either of which may be nil, among the pods of an address. Sets have
// the address for the sake of its owner alone.
func (x *Index) updateOwner(addr netip.Addr, before, now *Pod) {
	old := x.owner(addr)
	owners := slices.DeleteFunc(x.owners[addr], func(p *Pod) bool { return p == before })
	if now != nil && slices.Contains(now.Addrs, addr) {
		owners = append(owners, now)
		slices.SortFunc(owners, (*Pod).compare)
	}
	if x.owners[addr] = owners; len(owners) == 0 {
		delete(x.owners, addr)
	}
	owner := x.owner(addr)
	if owner == old {
		return
	}
	if owner != nil {
		delete(x.changes.Ended, addr)
	}
	for id, s := range x.selections {
		x.countAddress(id, s, owner, addr, 1)
		x.countAddress(id, s, old, addr, -1)
	}
}

// countAddress counts an address of a pod in a set, if the set's selection has the pod. The pod may be nil.
func (x *Index) countAddress(id model.SetID, s *selection, pod *Pod, addr netip.Addr, by int) {
	if pod == nil {
		return
	}
	if of, known := x.namespaces[pod.Namespace]; !s.selectsNamespace(pod.Namespace, of, known) {
		return
	}
	if element, selected := s.element(pod, addr); selected {
		x.countElement(id, element, by)
	}
}

// countPod counts the addresses that a pod owns in a set whose selection has the pod's namespace.
func (x *Index) countPod(id model.SetID, s *selection, pod *Pod, by int) {
	for _, addr := range pod.Addrs {
		if x.owner(addr) != pod {
			continue
		}
		if element, selected := s.element(pod, addr); selected {
			x.countElement(id, element, by)
		}
	}
}

// group puts addresses into the groups of the pods of this node that they belong to.
func (x *Index) group(addrs []netip.Addr) {
	for _, addr := range addrs {
		owner := x.owner(addr)
		local := owner != nil && owner.Local
		for _, direction := range model.Directions() {
			var group model.Group
			if local {
				group = x.groupOf(owner, direction)
			}
			x.setPod(model.PodAddress{Direction: direction, Addr: addr}, group)
		}
		x.setLocal(addr, local && len(x.policies) > 0)
	}
}

// noteEnd notes the addresses that a pod leaves behind.
func (x *Index) noteEnd(pod *Pod) {
	for _, addr := range pod.Addrs {
		if x.owner(addr) == nil && len(x.policies) > 0 {
			x.changes.Ended[addr] = struct{}{}
		}
	}
}
