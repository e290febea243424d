package nodelifecycle

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/controllers/nodes"
)

var (
	notReady    = v1.Taint{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute}
	unreachable = v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute}
)

// conditionTaints are the taints that keep new pods away
// (https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-nodes-by-condition).
var conditionTaints = []struct {
	condition v1.NodeConditionType
	status    v1.ConditionStatus
	key       string
}{
	{v1.NodeReady, v1.ConditionFalse, v1.TaintNodeNotReady},
	{v1.NodeReady, v1.ConditionUnknown, v1.TaintNodeUnreachable},
	{v1.NodeMemoryPressure, v1.ConditionTrue, v1.TaintNodeMemoryPressure},
	{v1.NodeDiskPressure, v1.ConditionTrue, v1.TaintNodeDiskPressure},
	{v1.NodeNetworkUnavailable, v1.ConditionTrue, v1.TaintNodeNetworkUnavailable},
	{v1.NodePIDPressure, v1.ConditionTrue, v1.TaintNodePIDPressure},
}

// schedulingTaints returns which NoSchedule taints the node should get and lose. A node without conditions is left
// as it was registered.
func schedulingTaints(node *v1.Node) (add, remove []v1.Taint) {
	sort := func(key string, wanted bool) {
		taint := v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule}
		switch has := nodes.HasTaint(node, taint); {
		case wanted && !has:
			add = append(add, taint)
		case !wanted && has:
			remove = append(remove, taint)
		}
	}
	for _, rule := range conditionTaints {
		c := nodes.Condition(node, rule.condition)
		if c == nil && rule.condition == v1.NodeReady {
			continue
		}
		sort(rule.key, c != nil && c.Status == rule.status)
	}
	sort(v1.TaintNodeUnschedulable, node.Spec.Unschedulable)
	return add, remove
}

// evictionTaints returns which NoExecute taint the node should get, and which it should lose. A node without
// conditions has not been examined yet.
func evictionTaints(node *v1.Node) (add *v1.Taint, remove []v1.Taint) {
	if nodes.Condition(node, v1.NodeReady) == nil {
		return nil, nil
	}
	wanted := map[v1.ConditionStatus]*v1.Taint{v1.ConditionFalse: &notReady,
		v1.ConditionUnknown: &unreachable}[nodes.Ready(node)]
	for _, taint := range []v1.Taint{notReady, unreachable} {
		has := nodes.HasTaint(node, taint)
		switch {
		case wanted != nil && wanted.Key == taint.Key:
			if !has {
				add = &taint
			}
		case has:
			remove = append(remove, taint)
		}
	}
	return add, remove
}

// betaLabels are old names of labels, kept equal to the new ones for selectors that still use them.
var betaLabels = map[string]string{v1.LabelOSStable: "beta.kubernetes.io/os",
	v1.LabelArchStable: "beta.kubernetes.io/arch"}

// missingLabels returns the labels to write; nil if there are none.
func missingLabels(node *v1.Node) map[string]string {
	wanted := map[string]string{}
	for stable, beta := range betaLabels {
		if value, ok := node.Labels[stable]; ok && node.Labels[beta] != value {
			wanted[beta] = value
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return maps.Clone(wanted)
}
