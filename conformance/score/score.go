// Package score records the timeline of a flow: which component wrote which object, and when watchers saw it. A
// recorder only watches; what it shows is what any client of the cluster could have seen.
package score

import (
	"slices"
	"time"
)

// Timeline is the record of one flow. Times are milliseconds since Started, as the recorder received them.
type Timeline struct {
	Started time.Time `json:"started"`
	// Actors are the components, in the order of their first write.
	Actors  []string `json:"actors"`
	Entries []Entry  `json:"notes"`
}

// Entry is one write, seen by a watch.
type Entry struct {
	At     float64 `json:"at"`     // ms since Started
	Actor  string  `json:"actor"`  // the writer: "client", "kube-scheduler", ...
	Object string  `json:"object"` // "Pod web-0"
	What   string  `json:"what"`   // "created", "bound to node-1", ...
	// Milestone names the milestones of the flow; "" for other notes.
	Milestone Milestone `json:"mark,omitempty"`
}

// Milestone is a milestone in the lifecycle of a pod.
type Milestone string

// Milestones.
const (
	Accepted Milestone = "accepted"
	Bound    Milestone = "bound"
	Pulled   Milestone = "pulled"
	Started  Milestone = "started"
	Running  Milestone = "running"
	Gone     Milestone = "gone"
)

// First returns the time of the first entry with that milestone, and whether there is one.
func (s *Timeline) First(mark Milestone) (float64, bool) {
	i := slices.IndexFunc(s.Entries, func(n Entry) bool { return n.Milestone == mark })
	if i < 0 {
		return 0, false
	}
	return s.Entries[i].At, true
}
