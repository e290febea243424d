package cycle

import (
	"context"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// MaxScore is the best score a plug-in gives.
const MaxScore = 100

// Filter is a plug-in that rejects nodes for a pod.
type Filter interface {
	Name() string
	// Filter prepares the test of nodes for one pod. A nil Test lets every node pass; a Refusal refuses all nodes
	// at once. It must not change its arguments, and the same arguments must give the same answers.
	Filter(p *snapshot.Pod, s *snapshot.Snapshot) (Test, *Refusal)
}

// Test tells why a node can't take the pod it was made for; nil means it can. The node may be a copy that differs
// from the snapshot's in the pods on it.
type Test interface {
	Check(n *snapshot.Node) *Refusal
}

// PreFilterExtensions is a Test that depends on pods of other nodes, too. Follow adds p to n (sign 1) or removes it
// from n (sign -1) in its state, until the opposite call.
type PreFilterExtensions interface {
	Follow(p *snapshot.Pod, n *snapshot.Node, sign int)
}

// NodeNarrower is a Test that only the nodes of Only can pass: other nodes are not filtered.
type NodeNarrower interface {
	Only() []string
}

// Keeper is a Test that decides more than whether a node will do. Keep returns what it decided for the chosen node, for
// the plug-in's part in the commit; nil is nothing.
type Keeper interface {
	Keep(n *snapshot.Node) any
}

// Refusal holds the reasons. Unresolvable means that preemption would not help.
type Refusal struct {
	Reasons      []string
	Unresolvable bool
	// Pending tells that the pod waits for something that the plug-in has started: it is tried again without back-off.
	Pending bool
	// Err is an unexpected failure: it ends the attempt, whatever other nodes would do.
	Err error
}

// Score is a plug-in that ranks nodes for a pod.
type Score interface {
	Name() string
	// Score writes 0 to MaxScore for each of nodes into scores; false means it has no preference and wrote nothing.
	Score(p *snapshot.Pod, s *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool
}

// FailingScore is a Score that may fail unexpectedly, which ends the attempt.
type FailingScore interface {
	Score
	// Err is the failure of the last call of Score.
	Err() error
}

// Weighted is a Score and how much it counts.
type Weighted struct {
	Score
	Weight int64
}

// PostFilter is a plug-in that may preempt pods when no node passes the filters.
type PostFilter interface {
	Name() string
	// PostFilter gets the nodes' refusals, and the nominated node of the pod, if any.
	PostFilter(a *Attempt, refused []Refused, nominated string) PostFilterResult
}

// PostFilterResult is the node that fits the pod once Victims are evicted from it. Without Node, Message is the reason.
type PostFilterResult struct {
	Node    string
	Victims []*snapshot.Pod
	Message string
	// KeepNomination leaves an earlier nomination as it is.
	KeepNomination bool
	// Last ends the search: further PostFilter plug-ins are not asked.
	Last bool
	// Writes is what has to be written for Message to be true; nil is nothing. Its failure fails the attempt.
	Writes func(context.Context) error
}

// Nominations are pods that wait for room on a node, by the node's name.
type Nominations map[string][]*snapshot.Pod
