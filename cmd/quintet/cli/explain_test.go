package cli

import (
	"strings"
	"testing"

	"quintet.dev/quintet/components/scheduler"
)

func TestWriteExplanation(t *testing.T) {
	var b strings.Builder
	err := writeExplanation(&b, &scheduler.Explanation{
		Namespace: "shop", Name: "web", State: "unschedulable", Attempts: 2, Message: "0/7 nodes are available.", Nodes: 7,
		Refusals: []scheduler.Refusal{{Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}, Count: 7,
			Names: []string{"a", "b", "c", "d", "e", "f", "g"}, Preemptable: true}},
		WouldHelp: []scheduler.Help{{Plugin: "NodeResourcesFit", Events: []string{"NodeAdd", "AssignedPodDelete"}}},
	})
	const want = `Pod shop/web is unschedulable after 2 attempts.
0/7 nodes are available.

Refused by, of 7 nodes:
  NodeResourcesFit   7   Insufficient cpu   a, b, c, d, e, ...   preemption may help

What would help:
  Lower its requests, delete other pods, or add a node.

It is tried again upon:
  NodeResourcesFit: NodeAdd, AssignedPodDelete
`
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestWriteGated: a pod that no node was tried for is refused on none.
func TestWriteGated(t *testing.T) {
	var b strings.Builder
	err := writeExplanation(&b, &scheduler.Explanation{
		Namespace: "shop", Name: "web", State: "gated", Message: "waiting for scheduling gates: [a]",
		Refusals: []scheduler.Refusal{{Plugin: "SchedulingGates", Reasons: []string{"waiting for scheduling gates: [a]"}}},
	})
	const want = `Pod shop/web is gated after 0 attempts.
waiting for scheduling gates: [a]

Refused by:
  SchedulingGates   waiting for scheduling gates: [a]

What would help:
  Their controllers remove them from spec.schedulingGates when the pod may be scheduled.
`
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}
