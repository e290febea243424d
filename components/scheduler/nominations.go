package scheduler

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// nominations are the pods with a nominated node that wait for their victims to terminate. They have a lock of their
// own, as plug-ins change them during a cycle. It is safe for concurrent use.
type nominations struct {
	mu     sync.Mutex
	byNode cycle.Nominations
	of     map[types.UID]string
}

func newNominations() *nominations {
	return &nominations{byNode: cycle.Nominations{}, of: map[types.UID]string{}}
}

// current returns the nominations for a cycle, which changes by others don't reach.
func (n *nominations) current() cycle.Nominations {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.byNode) == 0 {
		return nil
	}
	return maps.Clone(n.byNode)
}

// on returns the pods that are nominated to a node.
func (n *nominations) on(node string) []*snapshot.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byNode[node]
}

func (n *nominations) node(p *snapshot.Pod) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of[p.UID()]
}

func (n *nominations) set(p *snapshot.Pod, node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.move(p, node)
}

// move replaces slices instead of changing them; the caller holds mu.
func (n *nominations) move(p *snapshot.Pod, node string) {
	n.drop(p.UID())
	n.of[p.UID()] = node
	n.byNode[node] = append(slices.Clone(n.byNode[node]), p)
}

// remove returns whether the pod was nominated.
func (n *nominations) remove(id types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.drop(id)
}

// drop is remove; the caller holds mu.
func (n *nominations) drop(id types.UID) bool {
	node, ok := n.of[id]
	if !ok {
		return false
	}
	delete(n.of, id)
	n.byNode[node] = slices.DeleteFunc(slices.Clone(n.byNode[node]), func(p *snapshot.Pod) bool { return p.UID() == id })
	if len(n.byNode[node]) == 0 {
		delete(n.byNode, node)
	}
	return true
}

// follow applies the nominated node in the status of a pending pod; was is the previous one. A nomination by this
// scheduler that its informer has not seen yet stays.
func (n *nominations) follow(was string, now *snapshot.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	said := now.Obj.Status.NominatedNodeName
	switch {
	case said != "" && said != was:
		n.move(now, said)
	case said == "" && was != "":
		n.drop(now.UID())
	default:
		if node, ok := n.of[now.UID()]; ok {
			n.move(now, node)
		}
	}
}
