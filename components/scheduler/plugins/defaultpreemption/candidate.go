package defaultpreemption

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// try takes all pods of lower priority off a copy of the node, which it makes in copied, and puts back as many as can
// stay, the important ones and those that budgets protect first. Without success it returns why.
func try(a *cycle.Attempt, n, copied *snapshot.Node, budgets []*snapshot.Budget) (*candidate, []string) {
	lower := make([]*snapshot.Pod, 0, len(n.Pods))
	for _, p := range n.Pods {
		if p.Priority < a.Pod.Priority {
			lower = append(lower, p)
		}
	}
	if len(lower) == 0 {
		return nil, []string{noVictims}
	}
	n.CloneInto(copied)
	for _, p := range lower {
		a.Remove(p, copied)
	}
	defer func() { // what was followed is taken back
		for _, p := range lower {
			if !slices.Contains(copied.Pods, p) {
				a.Add(p, copied)
			}
		}
	}()
	if refusal, _ := a.Check(copied); refusal != nil {
		return nil, refusal.Reasons
	}
	slices.SortFunc(lower, moreImportant)
	c := &candidate{node: n.Name, victims: make([]*snapshot.Pod, 0, len(lower))}
	protected, free := divide(lower, budgets)
	for _, p := range protected {
		if !stays(a, p, copied) {
			c.victims = append(c.victims, p)
			c.violations++
		}
	}
	for _, p := range free {
		if !stays(a, p, copied) {
			c.victims = append(c.victims, p)
		}
	}
	slices.SortFunc(c.victims, moreImportant)
	return c, nil
}

func stays(a *cycle.Attempt, p *snapshot.Pod, n *snapshot.Node) bool {
	a.Add(p, n)
	if refusal, _ := a.Check(n); refusal == nil {
		return true
	}
	a.Remove(p, n)
	return false
}

// moreImportant orders by priority, then by age.
func moreImportant(a, b *snapshot.Pod) int {
	if a.Priority != b.Priority {
		return cmp.Compare(b.Priority, a.Priority)
	}
	if c := started(a).Compare(started(b)); c != 0 {
		return c
	}
	return cmp.Compare(a.UID(), b.UID())
}

// started is late for a pod that has not started.
func started(p *snapshot.Pod) time.Time {
	if p.Obj.Status.StartTime == nil {
		return time.Unix(1<<40, 0)
	}
	return p.Obj.Status.StartTime.Time
}

func collect(s *snapshot.Snapshot) []*snapshot.Budget {
	var budgets []*snapshot.Budget
	s.Budgets(func(b *snapshot.Budget) { budgets = append(budgets, b) })
	return budgets
}

// divide returns the pods whose loss would exceed a budget, and the others.
func divide(pods []*snapshot.Pod, budgets []*snapshot.Budget) (protected, free []*snapshot.Pod) {
	if len(budgets) == 0 {
		return nil, pods
	}
	left := make([]int32, len(budgets))
	for i, b := range budgets {
		left[i] = b.Obj.Status.DisruptionsAllowed
	}
	for _, p := range pods {
		exceeds := false
		for i, b := range budgets {
			if !covers(b, p.Obj) {
				continue
			}
			left[i]--
			exceeds = exceeds || left[i] < 0
		}
		if exceeds {
			protected = append(protected, p)
		} else {
			free = append(free, p)
		}
	}
	return protected, free
}

func covers(b *snapshot.Budget, p *v1.Pod) bool {
	if b.Obj.Namespace != p.Namespace || len(p.Labels) == 0 || b.Selector.Empty() ||
		!b.Selector.Matches(labels.Set(p.Labels)) {
		return false
	}
	_, disrupted := b.Obj.Status.DisruptedPods[p.Name] // counted already
	return !disrupted
}

// pick takes the node with the fewest exceeded budgets; then the one whose most important victim is least important;
// the smallest sum of priorities; the fewest victims; the latest start of its most important victims; the first.
func pick(candidates []*candidate) *candidate {
	return slices.MinFunc(candidates, func(a, b *candidate) int {
		return cmp.Or(
			cmp.Compare(a.violations, b.violations),
			cmp.Compare(highest(a), highest(b)),
			cmp.Compare(sum(a), sum(b)),
			cmp.Compare(len(a.victims), len(b.victims)),
			earliest(b).Compare(earliest(a)),
		)
	})
}

func highest(c *candidate) int64 {
	if len(c.victims) == 0 {
		return -1 << 32
	}
	return int64(c.victims[0].Priority)
}

// sum is of priorities made positive, so that more victims never sum to less.
func sum(c *candidate) int64 {
	var total int64
	for _, p := range c.victims {
		total += int64(p.Priority) + 1<<31
	}
	return total
}

// earliest is the first start time among the victims of the highest priority, which come first.
func earliest(c *candidate) time.Time {
	var first time.Time
	for i, p := range c.victims {
		if p.Priority != c.victims[0].Priority {
			break
		}
		if t := started(p); i == 0 || t.Before(first) {
			first = t
		}
	}
	return first
}
