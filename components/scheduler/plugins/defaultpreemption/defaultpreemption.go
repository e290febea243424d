// Package defaultpreemption preempts pods of lower priority for a pod, as few and as unimportant as
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
	// Percentage of the nodes, but at least Absolute, are tried until that many could do, and one within all budgets.
	Percentage, Absolute int
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Hints are none: the plug-in that rejected the pod has the hint for the deletion of its victims.
func (*Plugin) Hints() []queue.Hint { return nil }

// PostFilter picks a node and its victims.
func (f *Plugin) PostFilter(a *cycle.Attempt, refused []cycle.Refused, nominated string) cycle.PostFilterResult {
	if why := f.eligible(a, refused, nominated); why != "" {
		return cycle.PostFilterResult{Message: prefix + why, KeepNomination: why == stillLeaving}
	}
	total := len(a.Snapshot.Nodes())
	counts := map[string]int{}
	budgets := collect(a.Snapshot)
	var candidates []*candidate
	var copied snapshot.Node
	enough, within := max(total*f.Percentage/100, f.Absolute), false
	helpless := total - len(refused)
	for i := range refused {
		if refused[i].Unresolvable {
			helpless++
			continue
		}
		if within && len(candidates) >= enough {
			break
		}
		c, reasons := try(a, a.Snapshot.Node(refused[i].Node), &copied, budgets)
		if c != nil {
			candidates, within = append(candidates, c), within || c.violations == 0
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
		return cycle.PostFilterResult{Message: prefix + cycle.Summary(total, counts)}
	}
	agreed, err := ask(a, candidates)
	if err != nil {
		return cycle.PostFilterResult{Message: prefix + err.Error()}
	}
	if len(agreed) == 0 {
		return cycle.PostFilterResult{Message: prefix + cycle.Summary(total, nil)}
	}
	best := pick(agreed)
	return cycle.PostFilterResult{Node: best.node, Victims: best.victims}
}

// eligible returns why the pod may not preempt others.
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
