// Package nodeunschedulable refuses cordoned nodes (spec.unschedulable) to pods that do not tolerate it.
package nodeunschedulable

import (
	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "NodeUnschedulable"

var refusal = &cycle.Refusal{Reasons: []string{"node(s) were unschedulable"}, Unresolvable: true}

// Plugin is a cycle.Filter.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints say that a node that can be used now helps, and a new toleration of the pod.
func (Plugin) Hints() []queue.Hint {
	return []queue.Hint{
		{Kinds: queue.NodeAdded | queue.NodeTaints, Helps: func(_ *snapshot.Pod, e queue.Event) bool {
			return !e.Node.Spec.Unschedulable && (e.OldNode == nil || e.OldNode.Spec.Unschedulable)
		}},
		{Kinds: queue.OwnTolerations, Helps: func(p *snapshot.Pod, _ queue.Event) bool { return tolerates(p) }},
	}
}

// Filter tests for the cordon.
func (Plugin) Filter(p *snapshot.Pod, _ *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	if tolerates(p) {
		return nil, nil
	}
	return test{}, nil
}

func tolerates(p *snapshot.Pod) bool {
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	return len(p.Obj.Spec.Tolerations) > 0 &&
		corev1.TolerationsTolerateTaint(klog.Background(), p.Obj.Spec.Tolerations, &cordon, true)
}

type test struct{}

func (test) Check(n *snapshot.Node) *cycle.Refusal {
	if n.Obj.Spec.Unschedulable {
		return refusal
	}
	return nil
}
