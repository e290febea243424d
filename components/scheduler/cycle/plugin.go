package cycle

import "quintet.dev/quintet/components/scheduler/snapshot"

// MaxScore is the best score a plug-in gives.
const MaxScore = 100

// Filter is a plug-in that says which nodes can't take a pod.
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

// Follower is a Test that also looks at pods on other nodes. Follow tells it that p is taken to be on n (sign 1) or
// away from n (sign -1), until it is told the opposite.
type Follower interface {
	Follow(p *snapshot.Pod, n *snapshot.Node, sign int)
}

// Narrower is a Test that only the named nodes can pass, so that the rest need not be looked at.
type Narrower interface {
	Only() []string
}

// Refusal says why. Unresolvable means that taking pods away would not help.
type Refusal struct {
	Reasons      []string
	Unresolvable bool
}

// Score is a plug-in that says how well nodes suit a pod.
type Score interface {
	Name() string
	// Score writes 0 to MaxScore for each of nodes into scores; false means it has no preference and wrote nothing.
	Score(p *snapshot.Pod, s *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool
}

// Weighted is a Score and how much it counts.
type Weighted struct {
	Score
	Weight int64
}

// PostFilter is a plug-in that may make room when no node can take a pod.
type PostFilter interface {
	Name() string
	// PostFilter is given the nodes' refusals, and the node, if any, on which room was made for the pod before.
	PostFilter(a *Attempt, refused []Refused, nominated string) Room
}

// Room is how a pod could get a node: by taking Victims away from Node. Without it, Message says why not.
type Room struct {
	Node    string
	Victims []*snapshot.Pod
	Message string
	// KeepNomination leaves an earlier nomination as it is.
	KeepNomination bool
}

// Nominations are pods that wait for room on a node, by the node's name.
type Nominations map[string][]*snapshot.Pod
