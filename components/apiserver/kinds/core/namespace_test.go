package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNamespacesAreLabeledInAMapOfTheirOwn: objects in memory have maps in common, and get defaults.
func TestNamespacesAreLabeledInAMapOfTheirOwn(t *testing.T) {
	shared := map[string]string{"team": "a"}
	n := &corev1.Namespace{}
	n.Name, n.Labels = "x", shared
	DefaultNamespace(n)
	if len(shared) != 1 || len(n.Labels) != 2 || n.Labels[corev1.LabelMetadataName] != "x" {
		t.Errorf("%v of %v", n.Labels, shared)
	}
}
