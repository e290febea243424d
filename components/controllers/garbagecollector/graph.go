package garbagecollector

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// object is what the graph knows of an object. Objects are immutable: a change makes a new one.
type object struct {
	resource        schema.GroupVersionResource
	kind            schema.GroupVersionKind
	namespace, name string
	uid             types.UID
	owners          []metav1.OwnerReference
	deleted         bool // has a deletion timestamp
	foreground      bool // waits for its dependents (finalizer foregroundDeletion)
	orphan          bool // lets its dependents go (finalizer orphan)
}

// waits tells whether the object's end waits for that of its dependents.
func (o *object) waits() bool { return o.deleted && o.foreground }

// orphans tells whether the object's end waits for its dependents to be let go.
func (o *object) orphans() bool { return o.deleted && o.orphan }

// blocks tells whether the object keeps the owner from going.
func (o *object) blocks(owner types.UID) bool {
	return slices.ContainsFunc(o.owners, func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ptr.Deref(ref.BlockOwnerDeletion, false)
	})
}

// graph holds the owner references between objects. It is safe for concurrent use.
type graph struct {
	mu         sync.RWMutex
	objects    map[types.UID]*object
	dependents map[types.UID]map[types.UID]bool // by owner, known or not
}

func newGraph() *graph {
	return &graph{objects: map[types.UID]*object{}, dependents: map[types.UID]map[types.UID]bool{}}
}

// put stores the newest state of an object and returns the objects to process because of it.
func (g *graph) put(next *object) []task {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.objects[next.uid]
	g.objects[next.uid] = next
	var tasks []task
	if before != nil {
		g.unlink(before)
		for _, ref := range before.owners { // an owner that waits may wait for this one no longer
			if owner := g.objects[ref.UID]; owner != nil && owner.waits() && before.blocks(ref.UID) &&
				!next.blocks(ref.UID) {
				tasks = append(tasks, task{uid: ref.UID})
			}
		}
	}
	for _, ref := range next.owners {
		if g.dependents[ref.UID] == nil {
			g.dependents[ref.UID] = map[types.UID]bool{}
		}
		g.dependents[ref.UID][next.uid] = true
	}
	if before == nil || !slices.EqualFunc(before.owners, next.owners, sameOwner) {
		if len(next.owners) > 0 && !next.deleted {
			tasks = append(tasks, task{uid: next.uid})
		}
	}
	if next.waits() && (before == nil || !before.waits()) {
		tasks = append(tasks, task{uid: next.uid})
		for dependent := range g.dependents[next.uid] {
			tasks = append(tasks, task{uid: dependent})
		}
	}
	if next.orphans() && (before == nil || !before.orphans()) {
		tasks = append(tasks, task{uid: next.uid, orphan: true})
	}
	return tasks
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name
}

// remove deletes an object from the graph and returns the objects to process because of it.
func (g *graph) remove(uid types.UID) []task {
	g.mu.Lock()
	defer g.mu.Unlock()
	gone := g.objects[uid]
	if gone == nil {
		return nil
	}
	delete(g.objects, uid)
	g.unlink(gone)
	var tasks []task
	for dependent := range g.dependents[uid] {
		tasks = append(tasks, task{uid: dependent})
	}
	for _, ref := range gone.owners {
		if owner := g.objects[ref.UID]; owner != nil && owner.waits() {
			tasks = append(tasks, task{uid: ref.UID})
		}
	}
	return tasks
}

func (g *graph) unlink(o *object) {
	for _, ref := range o.owners {
		delete(g.dependents[ref.UID], o.uid)
		if len(g.dependents[ref.UID]) == 0 {
			delete(g.dependents, ref.UID)
		}
	}
}

// drop forgets all objects of a resource that is not served any more. Nothing follows from that: they may well exist.
func (g *graph) drop(resource schema.GroupVersionResource) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, o := range g.objects {
		if o.resource == resource {
			g.unlink(o)
			delete(g.objects, uid)
		}
	}
}

// unlisted returns the objects of a resource that are not in listed.
func (g *graph) unlisted(resource schema.GroupVersionResource, listed sets.Set[types.UID]) (uids []types.UID) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for uid, o := range g.objects {
		if o.resource == resource && !listed.Has(uid) {
			uids = append(uids, uid)
		}
	}
	return uids
}

func (g *graph) get(uid types.UID) *object {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.objects[uid]
}

// dependentsOf returns the known dependents of an object.
func (g *graph) dependentsOf(uid types.UID) []*object {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var all []*object
	for dependent := range g.dependents[uid] {
		if o := g.objects[dependent]; o != nil {
			all = append(all, o)
		}
	}
	return all
}

// ownersConfirmed tells whether all owners of o exist with the UIDs that o names and are not being deleted.
func (g *graph) ownersConfirmed(o *object) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, ref := range o.owners {
		owner := g.objects[ref.UID]
		if owner == nil || owner.waits() || owner.name != ref.Name || owner.kind.Kind != ref.Kind {
			return false
		}
		if owner.namespace != "" && owner.namespace != o.namespace {
			return false
		}
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != owner.kind.Group {
			return false
		}
	}
	return true
}
