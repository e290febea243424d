package batch

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// TestQueuesMoveJobsBetweenNodes, and change nothing else of their affinity.
func TestQueuesMoveJobsBetweenNodes(t *testing.T) {
	node, pod := &corev1.NodeAffinity{}, &corev1.PodAffinity{}
	none, ofNothing := (*corev1.Affinity)(nil), &corev1.Affinity{}
	nodes, pods, both := &corev1.Affinity{NodeAffinity: node}, &corev1.Affinity{PodAffinity: pod},
		&corev1.Affinity{NodeAffinity: node, PodAffinity: pod}
	for _, c := range []struct {
		old, new *corev1.Affinity
		kept     bool
	}{
		{none, nodes, true}, {none, ofNothing, true}, {nodes, none, true}, {ofNothing, none, true}, {pods, both, true},
		{both, pods, true},
		{none, pods, false}, {nodes, both, false}, {pods, none, false}, {both, nodes, false}, {pods, nodes, false},
	} {
		if kept := apiequality.Semantic.DeepEqual(withNodeAffinity(c.old, c.new), c.new); kept != c.kept {
			t.Errorf("%v to %v: %v", c.old, c.new, kept)
		}
	}
}
