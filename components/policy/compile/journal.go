package compile

import (
	"net/netip"

	"quintet.dev/quintet/components/policy/model"
)

// journal is a model whose changes are noted.
type journal struct {
	*model.Model
	changes *model.Changes
}

// note keeps what was at a key before the first change since the last Take.
func note[K comparable, V any](in map[K]V, key K, before V) {
	if _, noted := in[key]; !noted {
		in[key] = before
	}
}

// setPod puts an address into a group; the zero Group takes it out.
func (j *journal) setPod(addr model.PodAddress, group model.Group) {
	before := j.Pods[addr]
	if before == group {
		return
	}
	note(j.changes.Pods, addr, before)
	j.countGroup(before, -1)
	j.countGroup(group, 1)
	if group == (model.Group{}) {
		delete(j.Pods, addr)
	} else {
		j.Pods[addr] = group
	}
}

func (j *journal) countGroup(group model.Group, by int) {
	if group == (model.Group{}) {
		return
	}
	count := j.Groups[group]
	if count == 0 || count+by == 0 {
		note(j.changes.Groups, group, count > 0)
	}
	if count += by; count > 0 {
		j.Groups[group] = count
	} else {
		delete(j.Groups, group)
	}
}

func (j *journal) setPolicy(key model.PolicyKey, matches []model.Match, exists bool) {
	_, before := j.Policies[key]
	note(j.changes.Policies, key, before)
	if exists {
		j.Policies[key] = matches
	} else {
		delete(j.Policies, key)
	}
}

// addSet makes an empty set.
func (j *journal) addSet(id model.SetID) {
	note(j.changes.Sets, id, false)
	j.Sets[id] = map[model.Element]int{}
}

func (j *journal) deleteSet(id model.SetID) {
	note(j.changes.Sets, id, true)
	for element := range j.Sets[id] {
		j.elementChanged(id, element, false)
	}
	delete(j.Sets, id)
}

// countElement adds to how often an element was put into a set.
func (j *journal) countElement(id model.SetID, element model.Element, by int) {
	elements := j.Sets[id]
	before := elements[element]
	if now := before + by; now > 0 {
		elements[element] = now
	} else {
		delete(elements, element)
	}
	if before == 0 || before+by == 0 {
		j.elementChanged(id, element, before == 0)
	}
}

// elementChanged notes a change that undoes an opposite one.
func (j *journal) elementChanged(id model.SetID, element model.Element, added bool) {
	to, opposite := j.changes.Added, j.changes.Removed
	if !added {
		to, opposite = opposite, to
	}
	if _, undone := opposite[id][element]; undone {
		if delete(opposite[id], element); len(opposite[id]) == 0 {
			delete(opposite, id)
		}
		return
	}
	if to[id] == nil {
		to[id] = map[model.Element]struct{}{}
	}
	to[id][element] = struct{}{}
}

func (j *journal) setLocal(addr netip.Addr, present bool) {
	_, before := j.Local[addr]
	if before == present {
		return
	}
	note(j.changes.Local, addr, before)
	if present {
		j.Local[addr] = struct{}{}
	} else {
		delete(j.Local, addr)
	}
}

func (j *journal) setStarting(direction model.Direction, is bool) {
	if j.Starting[direction] == is {
		return
	}
	j.changes.StartingDiffers = true
	if is {
		j.Starting[direction] = true
	} else {
		delete(j.Starting, direction)
	}
}
