package garbagecollector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// standing is what an owner is to its dependent.
type standing int

const (
	solid    standing = iota // exists and stays, or goes without waiting for its dependents
	dangling                 // does not exist
	waiting                  // is going, and waits for its dependents to go first
)

// facts are all that the decision about an object depends on, but for its dependents' names.
type facts struct {
	owners map[types.UID]standing
	// dependents tells that the object has some; waitingDependents that one of those waits for its own dependents.
	dependents, waitingDependents bool
	orphan, foreground            bool // finalizers of the object
}

// action is what to do with an object: at most one of dropOwners and policy.
type action struct {
	dropOwners []types.UID
	// unblock lets the owners go first: two that wait for each other would wait for ever.
	unblock bool
	policy  metav1.DeletionPropagation
}

// decide is the documented rule
// (https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents): an object lives as long as
// one of its owners does.
func decide(f facts) action {
	var drop []types.UID
	hasSolid, hasWaiting := false, false
	for uid, s := range f.owners {
		switch s {
		case solid:
			hasSolid = true
		case waiting:
			hasWaiting = true
			drop = append(drop, uid)
		case dangling:
			drop = append(drop, uid)
		}
	}
	switch {
	case len(f.owners) == 0 || hasSolid:
		return action{dropOwners: drop}
	case hasWaiting && f.dependents:
		return action{policy: metav1.DeletePropagationForeground, unblock: f.waitingDependents}
	case f.orphan:
		return action{policy: metav1.DeletePropagationOrphan}
	case f.foreground:
		return action{policy: metav1.DeletePropagationForeground}
	}
	return action{policy: metav1.DeletePropagationBackground}
}
