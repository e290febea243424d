package dynamicresources

import (
	"encoding/binary"
	"maps"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// maxAnswers is of how many different sets of claims the answers of nodes are kept.
const maxAnswers = 32

// answer is whether claims can be allocated on a node, and how far in front the alternatives are that they get.
type answer struct {
	refusal *cycle.Refusal
	rank    int64
}

// answers are what the nodes of a snapshot answered to claims that ask for the same, by what these ask for. They hold
// for as long as slices, classes and allocations are the same to a node, and its labels: the allocator knows nothing
// else.
type answers struct {
	of    *snapshot.Snapshot
	to    map[string]*nodeAnswers
	asked int64
}

type nodeAnswers struct {
	byNode map[string]*nodeAnswer
	asked  int64 // when it was used last
}

type nodeAnswer struct {
	answer
	version snapshot.DeviceVersion
	node    *v1.Node
}

// keyOf returns what claims ask for; false if that can't be told.
func keyOf(claims []*resourcev1.ResourceClaim) (string, bool) {
	var key []byte
	for _, claim := range claims {
		asks, err := claim.Spec.Devices.Marshal()
		if err != nil {
			return "", false
		}
		key = binary.AppendUvarint(key, uint64(len(asks)))
		key = append(key, asks...)
	}
	return string(key), true
}

// find returns the answers to claims that ask for key, which may be added to.
func (a *answers) find(s *snapshot.Snapshot, key string) *nodeAnswers {
	if a.of != s {
		*a = answers{of: s, to: map[string]*nodeAnswers{}}
	}
	a.asked++
	found := a.to[key]
	if found == nil {
		if len(a.to) >= maxAnswers {
			a.forgetOldest()
		}
		found = &nodeAnswers{byNode: map[string]*nodeAnswer{}}
		a.to[key] = found
	}
	if len(found.byNode) > 2*len(s.Nodes()) { // most of them are gone
		clear(found.byNode)
	}
	found.asked = a.asked
	return found
}

func (a *answers) forgetOldest() {
	oldest, when := "", a.asked
	for key, n := range a.to {
		if n.asked < when {
			oldest, when = key, n.asked
		}
	}
	delete(a.to, oldest)
}

// get returns a node's answer, or nil if it has none that holds.
func (n *nodeAnswers) get(node *v1.Node, version snapshot.DeviceVersion) *nodeAnswer {
	known := n.byNode[node.Name]
	switch {
	case known == nil || known.version != version:
		return nil
	case known.node == node:
	case maps.Equal(known.node.Labels, node.Labels):
		known.node = node
	default:
		return nil
	}
	return known
}

func (n *nodeAnswers) put(node *v1.Node, version snapshot.DeviceVersion, a answer) *nodeAnswer {
	known := &nodeAnswer{answer: a, version: version, node: node}
	n.byNode[node.Name] = known
	return known
}
