package nft

import (
	"slices"

	"quintet.dev/quintet/components/proxy/model"
)

// claims tell which port has an element of a map. Two Services may name the same external address and port, and the
// kernel refuses a whole transaction for one element that is there twice: the first one has it, the others wait.
type claims struct {
	owner   map[slot]model.PortKey
	waiting map[slot][]model.PortKey
}

// slot is the place of an element in a map.
type slot struct{ container, key string }

func newClaims() claims {
	return claims{owner: map[slot]model.PortKey{}, waiting: map[slot][]model.PortKey{}}
}

// take returns the elements that the port may have.
func (c claims) take(port model.PortKey, elements []element) []element {
	return slices.DeleteFunc(elements, func(e element) bool {
		at := slot{e.container, e.key}
		if owner, taken := c.owner[at]; taken && owner != port {
			if !slices.Contains(c.waiting[at], port) {
				c.waiting[at] = append(c.waiting[at], port)
			}
			return true
		}
		c.owner[at] = port
		return false
	})
}

// release drops elements that the port no longer uses, and returns the ports that waited for them.
func (c claims) release(port model.PortKey, before, now []element) []model.PortKey {
	var freed []model.PortKey
	for _, e := range before {
		at := slot{e.container, e.key}
		kept := slices.ContainsFunc(now, func(n element) bool { return slot{n.container, n.key} == at })
		if kept || c.owner[at] != port {
			continue
		}
		delete(c.owner, at)
		freed = append(freed, c.waiting[at]...)
		delete(c.waiting, at)
	}
	return freed
}
