package nodelifecycle

import (
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/nodes"
)

// silentReason is the reason of conditions of a node that stopped reporting.
const silentReason = "NodeStatusUnknown"

// heartbeat is the last observed heartbeat of a node. Clocks differ, so the grace period starts when the change was
// observed here, not at the time in the object.
type heartbeat struct {
	seen      time.Time
	heartbeat metav1.Time
	renewed   metav1.MicroTime
}

// graces are how long a node may be silent.
type graces struct {
	startup, running time.Duration
}

// evaluate returns the node's new heartbeat and, if it has been silent for too long, the conditions that then hold.
func evaluate(node *v1.Node, lease *coordination.Lease, last *heartbeat, g graces,
	now time.Time) (heartbeat, []v1.NodeCondition) {
	next := heartbeat{seen: now}
	grace := g.running
	ready := nodes.Condition(node, v1.NodeReady)
	if ready != nil {
		next.heartbeat = ready.LastHeartbeatTime
	} else {
		grace = g.startup
		next.seen = node.CreationTimestamp.Time
	}
	if lease != nil && lease.Spec.RenewTime != nil {
		next.renewed = *lease.Spec.RenewTime
	}
	if last != nil {
		changed := !next.heartbeat.Equal(&last.heartbeat) || last.renewed.Before(&next.renewed)
		if changed {
			next.seen = now
		} else {
			next.seen = last.seen
		}
	}
	if !now.After(next.seen.Add(grace)) {
		return next, nil
	}
	return next, silent(node, now)
}

// silent returns the conditions of a node that does not report; nil if it has them already.
func silent(node *v1.Node, now time.Time) []v1.NodeCondition {
	conditions := append([]v1.NodeCondition(nil), node.Status.Conditions...)
	at := metav1.NewTime(now)
	changed := false
	for _, t := range []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure,
		v1.NodePIDPressure} {
		found := false
		for i := range conditions {
			c := &conditions[i]
			if c.Type != t {
				continue
			}
			found = true
			if c.Status != v1.ConditionUnknown {
				c.Status, c.Reason, c.Message = v1.ConditionUnknown, silentReason,
					"Kubelet stopped posting node status."
				c.LastTransitionTime = at
				changed = true
			}
		}
		if !found {
			conditions = append(conditions, v1.NodeCondition{
				Type: t, Status: v1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
				Message:           "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: at,
			})
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return conditions
}
