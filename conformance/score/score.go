// Package score records how a flow is played: who wrote which object, and when everybody could see it. A recorder only
// watches; what it shows is what any client of the cluster could have seen.
package score

import (
	"slices"
	"time"
)

// Score is the record of one flow. Times are milliseconds since Started, as the recorder received them.
type Score struct {
	Started time.Time `json:"started"`
	// Players in the order in which they first played.
	Players []string `json:"players"`
	Notes   []Note   `json:"notes"`
}

// Note is one write, seen by a watch.
type Note struct {
	At     float64 `json:"at"`     // ms since Started
	Player string  `json:"player"` // who wrote it: "client", "kube-scheduler", ...
	Object string  `json:"object"` // "Pod web-0"
	What   string  `json:"what"`   // "created", "bound to node-1", ...
	// Mark names the milestones of the flow; "" for other notes.
	Mark Mark `json:"mark,omitempty"`
}

// Mark is a milestone in the life of a pod.
type Mark string

// Milestones.
const (
	Accepted Mark = "accepted"
	Bound    Mark = "bound"
	Pulled   Mark = "pulled"
	Started  Mark = "started"
	Running  Mark = "running"
	Gone     Mark = "gone"
)

// First returns the time of the first note with that mark, and whether there is one.
func (s *Score) First(mark Mark) (float64, bool) {
	i := slices.IndexFunc(s.Notes, func(n Note) bool { return n.Mark == mark })
	if i < 0 {
		return 0, false
	}
	return s.Notes[i].At, true
}
