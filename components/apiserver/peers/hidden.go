package peers

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// grace is how long a group version that is no longer requested stays hidden, as the peers may not know it yet.
const grace = 5 * time.Minute

// hidden are the group versions that are not looked for at other servers: those of definitions and of extension
// servers. All servers have them alike, and of one that is gone the others' discovery, as it was when it was asked for,
// still tells.
type hidden struct {
	mu     sync.Mutex
	now    map[string][]schema.GroupVersion // by the object that asks for them
	before map[schema.GroupVersion]time.Time
}

// set says which group versions an object asks for, none if it is gone, and reports whether that is news.
func (h *hidden) set(object string, versions []schema.GroupVersion, at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	former := h.now[object]
	if slices.Equal(former, versions) {
		return false
	}
	h.now[object] = versions
	if len(versions) == 0 {
		delete(h.now, object)
	}
	for _, gv := range former {
		if !slices.Contains(versions, gv) {
			h.before[gv] = at
		}
	}
	return true
}

// all returns what is hidden at a time, and when that ends for the first of them; zero if it doesn't by itself.
func (h *hidden) all(at time.Time) (versions map[schema.GroupVersion]bool, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	versions = map[schema.GroupVersion]bool{}
	for gv, gone := range h.before {
		end := gone.Add(grace)
		if !at.Before(end) {
			delete(h.before, gv)
			continue
		}
		versions[gv] = true
		if until.IsZero() || end.Before(until) {
			until = end
		}
	}
	for _, list := range h.now {
		for _, gv := range list {
			versions[gv] = true
		}
	}
	return versions, until
}

// without is what is left of what the others serve.
func (v view) without(versions map[schema.GroupVersion]bool) view {
	out := make(view, len(v))
	for id, from := range v {
		left := peer{resources: map[schema.GroupVersionResource]bool{}}
		for gvr := range from.resources {
			if !versions[gvr.GroupVersion()] {
				left.resources[gvr] = true
			}
		}
		for _, group := range from.groups {
			all := group.Versions
			group.Versions = nil
			for _, v := range all {
				if !versions[schema.GroupVersion{Group: group.Name, Version: v.Version}] {
					group.Versions = append(group.Versions, v)
				}
			}
			if len(group.Versions) > 0 {
				left.groups = append(left.groups, group)
			}
		}
		out[id] = left
	}
	return out
}
