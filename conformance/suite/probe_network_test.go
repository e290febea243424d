package suite

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestReachesNodes(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	node := corev1.Node{Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
	}}
	for name, test := range map[string]struct {
		ctx   context.Context
		nodes []corev1.Node
		want  bool
	}{
		"an address that answers or refuses": {t.Context(), []corev1.Node{node}, true},
		"an address that does not":           {ended, []corev1.Node{node}, false},
		"no node":                            {t.Context(), nil, false},
	} {
		if got := reachesNodes(test.ctx, test.nodes); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
