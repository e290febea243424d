package defaultpreemption

import (
	"fmt"
	"slices"

	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/scheduler/cycle"
)

// ask has the extenders of the pod agree to candidates: each gets those that the one before it left.
func ask(a *cycle.Attempt, candidates []*candidate) ([]*candidate, error) {
	if !slices.ContainsFunc(a.Extenders(), cycle.Extender.Preempts) {
		return candidates, nil
	}
	victims := map[string]cycle.Victims{}
	for _, c := range candidates {
		victims[c.node] = cycle.Victims{Pods: c.victims, Violations: int64(c.violations)}
	}
	asked := false
	for _, e := range a.Extenders() {
		if !e.Preempts() || len(victims) == 0 {
			continue
		}
		var agreed map[string]cycle.Victims
		var err error
		a.Release(func() { agreed, err = e.Preempt(a.Pod, a.Snapshot, victims) })
		if err != nil {
			if e.Ignorable() {
				klog.Background().Info("Skipped extender as it returned error and has ignorable flag set", "extender",
					e.Name(), "err", err)
				continue
			}
			return nil, err
		}
		for node, on := range agreed {
			if len(on.Pods) > 0 {
				continue
			}
			if !e.Ignorable() {
				return nil, fmt.Errorf("expected at least one victim pod on node %q", node)
			}
			delete(agreed, node)
		}
		victims, asked = agreed, true
	}
	if !asked {
		return candidates, nil
	}
	var left []*candidate
	for _, node := range cycle.SortedNames(victims) {
		left = append(left, &candidate{node: node, victims: victims[node].Pods,
			violations: int(victims[node].Violations)})
	}
	return left, nil
}
