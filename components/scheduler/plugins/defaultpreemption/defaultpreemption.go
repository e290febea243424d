// Package defaultpreemption makes room for a pod by taking away pods of lower priority, as few and as unimportant as
// will do, and as disruption budgets allow.
package defaultpreemption

import (
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "DefaultPreemption"

const (
	prefix       = "preemption: "
	notHelpful   = "Preemption is not helpful for scheduling"
	noVictims    = "No preemption victims found for incoming pod"
	notPreempts  = "not eligible due to preemptionPolicy=Never."
	stillLeaving = "not eligible due to a terminating pod on the nominated node."
)

// Plugin is a cycle.PostFilter.
type Plugin struct {
	// Percentage of the nodes, but at least Absolute, are tried until that many could do.
	Percentage, Absolute int
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Hints are none: what refused the pod says when its victims' going helps.
func (*Plugin) Hints() []queue.Hint { return nil }

// PostFilter picks a node and its victims.
func (f *Plugin) PostFilter(a *cycle.Attempt, refused []cycle.Refused, nominated string) cycle.Room {
	if why := f.eligible(a, refused, nominated); why != "" {
		return cycle.Room{Message: prefix + why, KeepNomination: why == stillLeaving}
	}
	total := len(a.Snapshot.Nodes())
	counts := map[string]int{}
	budgets := collect(a.Snapshot)
	var candidates []*candidate
	enough := max(total*f.Percentage/100, f.Absolute)
	helpless := total - len(refused)
	for i := range refused {
		if refused[i].Unresolvable {
			helpless++
			continue
		}
		if len(candidates) >= enough {
			break
		}
		c, reasons := try(a, a.Snapshot.Node(refused[i].Node), budgets)
		if c != nil {
			candidates = append(candidates, c)
			if c.violations == 0 && len(c.victims) == 0 {
				break
			}
			continue
		}
		for _, reason := range reasons {
			counts[reason]++
		}
	}
	if len(candidates) == 0 {
		if helpless > 0 {
			counts[notHelpful] += helpless
		}
		return cycle.Room{Message: prefix + cycle.Summary(total, counts)}
	}
	best := pick(candidates)
	return cycle.Room{Node: best.node, Victims: best.victims}
}

// eligible says why the pod may not take others away.
func (f *Plugin) eligible(a *cycle.Attempt, refused []cycle.Refused, nominated string) string {
	if policy := a.Pod.Obj.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
		return notPreempts
	}
	n := a.Snapshot.Node(nominated)
	if n == nil {
		return ""
	}
	for i := range refused {
		if refused[i].Node == nominated && refused[i].Unresolvable {
			return "" // that node will not do any more
		}
	}
	for _, p := range n.Pods {
		if p.Terminating() && p.Priority < a.Pod.Priority && preempted(p.Obj) {
			return stillLeaving
		}
	}
	return ""
}

func preempted(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget {
			return c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
		}
	}
	return false
}

var _ cycle.PostFilter = (*Plugin)(nil)

// candidate is a node with the pods to take away.
type candidate struct {
	node       string
	victims    []*snapshot.Pod
	violations int
}
