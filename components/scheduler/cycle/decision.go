package cycle

import (
	"fmt"
	"slices"
	"strings"
)

// Decision is what a cycle decided and why.
type Decision struct {
	// Node is where the pod goes; empty if nowhere.
	Node string
	// Total nodes, of which Evaluated were looked at and Feasible could take the pod.
	Total, Evaluated, Feasible int
	// Next is where the following cycle starts to look.
	Next int
	// Refused holds the refusals of nodes; kept when no node is feasible, or with Explain.
	Refused []Refused
	// Narrowed names the plug-ins that ruled out, at once, all nodes not in Refused.
	Narrowed []string
	// RefusedAll is set when a plug-in refused all nodes at once; Nodes is then empty.
	RefusedAll *Refused
	// Scores of feasible nodes, when an explanation was asked for.
	Scores []NodeScore
	// PostFilterResult is the result of the PostFilter plug-ins, when no node passed the filters.
	PostFilterResult *PostFilterResult
	// Kept is what tests decided for Node, by plug-in.
	Kept map[string]any
	// State is what the profile's Begin returned.
	State any
	// Err is an unexpected failure of the plug-in FailedBy; there is then no decision.
	Err      error
	FailedBy string
}

// Refused is why one node can't take the pod. Nodes that a plug-in refuses for the same reasons may share a Refusal.
type Refused struct {
	Node, Plugin string
	*Refusal
}

// NodeScore is how well a node suits the pod: weighted, by plug-in, and in sum.
type NodeScore struct {
	Node     string
	ByPlugin map[string]int64
	Total    int64
}

// Plugins names the plug-ins that refused.
func (d *Decision) Plugins() []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range d.Refused {
		add(d.Refused[i].Plugin)
	}
	for _, name := range d.Narrowed {
		add(name)
	}
	if d.RefusedAll != nil {
		add(d.RefusedAll.Plugin)
	}
	return names
}

// Pending tells whether a plug-in that refused waits for something that it has started itself.
func (d *Decision) Pending() bool {
	if d.RefusedAll != nil && d.RefusedAll.Pending {
		return true
	}
	return slices.ContainsFunc(d.Refused, func(r Refused) bool { return r.Pending })
}

// Message renders a refusal as upstream's scheduler does, for conditions and events.
func (d *Decision) Message() string {
	if d.Node != "" {
		return ""
	}
	if d.Total == 0 {
		return "no nodes available to schedule pods"
	}
	message := d.Why()
	if d.PostFilterResult != nil && d.PostFilterResult.Message != "" {
		message += " " + d.PostFilterResult.Message
	}
	return message
}

// Why is Message without the messages of the PostFilter plug-ins.
func (d *Decision) Why() string {
	if d.RefusedAll != nil {
		return fmt.Sprintf("0/%d nodes are available: %s.", d.Total, strings.Join(d.RefusedAll.Reasons, ", "))
	}
	counts := map[string]int{}
	for i := range d.Refused {
		for _, reason := range d.Refused[i].Reasons {
			counts[reason]++
		}
	}
	if rest := d.Total - len(d.Refused); len(d.Narrowed) > 0 && rest > 0 {
		plugins := slices.Clone(d.Narrowed)
		slices.Sort(plugins)
		counts[fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", plugins)] += rest
	}
	return Summary(d.Total, counts)
}

// Summary renders how many of total nodes are unavailable for which reason.
func Summary(total int, counts map[string]int) string {
	message := fmt.Sprintf("0/%d nodes are available:", total)
	if len(counts) == 0 {
		return message
	}
	reasons := make([]string, 0, len(counts))
	for reason, count := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(reasons)
	return message + " " + strings.Join(reasons, ", ") + "."
}
