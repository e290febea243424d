package why

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// node reads the conditions of a node: the condition Ready, and the pressures that evict pods.
func node(n *corev1.Node) (State, []Cause) {
	state := Pending
	causes := []Cause{{Reason: "NotReported", Message: "Its kubelet has not yet reported its status."}}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			state, causes = readyNode(c)
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue {
			causes = append(causes, Cause{Reason: string(c.Type), Message: or(c.Message, "The node is under pressure.")})
		}
	}
	if n.Spec.Unschedulable {
		causes = append(causes, Cause{Reason: "Cordoned", Message: "New pods are not scheduled to it.",
			Help: "kubectl uncordon " + n.Name})
	}
	return state, causes
}

func readyNode(c corev1.NodeCondition) (State, []Cause) {
	switch c.Status {
	case corev1.ConditionTrue:
		return Ready, nil
	case corev1.ConditionUnknown:
		return Pending, []Cause{{Reason: or(c.Reason, "NodeStatusUnknown"),
			Message: fmt.Sprintf("Its kubelet was last heard of at %s.", c.LastHeartbeatTime.UTC().Format("15:04:05 MST")),
			Help:    "See whether the node and its kubelet run, and reach the API server."}}
	}
	return Pending, []Cause{{Reason: or(c.Reason, "NotReady"), Message: c.Message}}
}
