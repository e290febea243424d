// Package tainttoleration refuses nodes with NoSchedule or NoExecute taints that a pod does not tolerate, and prefers
// nodes with fewer untolerated PreferNoSchedule taints.
package tainttoleration

import (
	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "TaintToleration"

var refusal = &cycle.Refusal{Reasons: []string{"node(s) had untolerated taint(s)"}, Unresolvable: true}

// Plugin is a cycle.Filter and cycle.Score.
type Plugin struct {
	// Comparison allows the operators Gt and Lt in tolerations (KEP-5471).
	Comparison bool
}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints say that a node whose taints are tolerated now helps, and a toleration that the pod got.
func (t Plugin) Hints() []queue.Hint {
	return []queue.Hint{
		{Kinds: queue.NodeAdded | queue.NodeTaints, Helps: func(p *snapshot.Pod, e queue.Event) bool {
			return t.fits(p, e.Node) && (e.OldNode == nil || !t.fits(p, e.OldNode))
		}},
		{Kinds: queue.OwnTolerations},
	}
}

// Filter tests for untolerated taints.
func (t Plugin) Filter(p *snapshot.Pod, _ *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	return test{t, p}, nil
}

type test struct {
	plugin Plugin
	pod    *snapshot.Pod
}

func (t test) Check(n *snapshot.Node) *cycle.Refusal {
	if len(n.Obj.Spec.Taints) == 0 || t.plugin.fits(t.pod, n.Obj) {
		return nil
	}
	return refusal
}

func (t Plugin) fits(p *snapshot.Pod, n *v1.Node) bool {
	for i := range n.Spec.Taints { // FindMatchingUntoleratedTaint would allocate, and this runs for each node and pod
		if taint := &n.Spec.Taints[i]; keepsOut(taint) &&
			!corev1.TolerationsTolerateTaint(klog.Background(), p.Obj.Spec.Tolerations, taint, t.Comparison) {
			return false
		}
	}
	return true
}

func keepsOut(taint *v1.Taint) bool {
	return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
}

// Score counts untolerated PreferNoSchedule taints; the fewest score best.
func (t Plugin) Score(p *snapshot.Pod, _ *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool {
	found := false
	var tolerations []v1.Toleration
	for i := range p.Obj.Spec.Tolerations {
		if effect := p.Obj.Spec.Tolerations[i].Effect; effect == "" || effect == v1.TaintEffectPreferNoSchedule {
			tolerations = append(tolerations, p.Obj.Spec.Tolerations[i])
		}
	}
	for i, n := range nodes {
		scores[i] = 0
		for k := range n.Obj.Spec.Taints {
			taint := &n.Obj.Spec.Taints[k]
			if taint.Effect == v1.TaintEffectPreferNoSchedule &&
				!corev1.TolerationsTolerateTaint(klog.Background(), tolerations, taint, t.Comparison) {
				scores[i]++
				found = true
			}
		}
	}
	if found {
		cycle.Normalize(scores, true)
	}
	return found
}
