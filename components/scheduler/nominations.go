package scheduler

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// nominations are pods for which room was made on a node, and who wait for their victims to go.
type nominations struct {
	byNode cycle.Nominations
	of     map[types.UID]string
}

func newNominations() nominations {
	return nominations{byNode: cycle.Nominations{}, of: map[types.UID]string{}}
}

func (n nominations) node(p *snapshot.Pod) string { return n.of[p.UID()] }

func (n nominations) set(p *snapshot.Pod, node string) {
	n.remove(p.UID())
	n.of[p.UID()] = node
	n.byNode[node] = append(n.byNode[node], p)
}

// remove returns whether the pod was nominated.
func (n nominations) remove(id types.UID) bool {
	node, ok := n.of[id]
	if !ok {
		return false
	}
	delete(n.of, id)
	n.byNode[node] = slices.DeleteFunc(n.byNode[node], func(p *snapshot.Pod) bool { return p.UID() == id })
	if len(n.byNode[node]) == 0 {
		delete(n.byNode, node)
	}
	return true
}

// follow takes over what the API server says of a waiting pod, who was nominated to was before. What this scheduler decided and
// has not yet read back stays.
func (n nominations) follow(was string, now *snapshot.Pod) {
	said := now.Obj.Status.NominatedNodeName
	switch {
	case said != "" && said != was:
		n.set(now, said)
	case said == "" && was != "":
		n.remove(now.UID())
	default:
		if node, ok := n.of[now.UID()]; ok {
			n.set(now, node)
		}
	}
}
