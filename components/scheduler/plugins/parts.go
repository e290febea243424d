package plugins

import (
	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Gate is a plug-in that keeps pods from being tried (extension point PreEnqueue).
type Gate interface {
	Name() string
	// Gated returns why the pod must wait, or "".
	Gated(*snapshot.Pod) string
}

// QueueSort is a plug-in that orders the pods to try.
type QueueSort interface {
	Name() string
	Less(a, b *queue.Item) bool
}

// Parts are what a plug-in does at each extension point; nil is nothing.
type Parts struct {
	Name       string
	Hints      []queue.Hint
	QueueSort  QueueSort
	Gate       Gate
	Filter     cycle.Filter // PreFilter and Filter
	PostFilter cycle.PostFilter
	Score      cycle.Score // PreScore, Score and NormalizeScore
	Reserve    commit.Reserve
	Permit     commit.Permit
	PreBind    commit.PreBind
	Bind       commit.Bind
	PostBind   commit.PostBind
}

// PartsOf finds out what a plug-in does.
func PartsOf(p Plugin) Parts {
	parts := Parts{Name: p.Name(), Hints: p.Hints()}
	parts.QueueSort, _ = p.(QueueSort)
	parts.Gate, _ = p.(Gate)
	parts.Filter, _ = p.(cycle.Filter)
	parts.PostFilter, _ = p.(cycle.PostFilter)
	parts.Score, _ = p.(cycle.Score)
	parts.Reserve, _ = p.(commit.Reserve)
	parts.Permit, _ = p.(commit.Permit)
	parts.PreBind, _ = p.(commit.PreBind)
	parts.Bind, _ = p.(commit.Bind)
	parts.PostBind, _ = p.(commit.PostBind)
	return parts
}
