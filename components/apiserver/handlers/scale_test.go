package handlers

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
)

// TestScaleRows: where none are wanted the Scale of a custom resource has no number to show.
func TestScaleRows(t *testing.T) {
	scale := &autoscalingv1.Scale{}
	if own, custom := scaleRow(scale), customScaleRow(scale); own[1] != int32(0) || custom[1] != nil ||
		custom[2] != int32(0) {
		t.Errorf("got %v, %v", own, custom)
	}
	scale.Spec.Replicas = 2
	if cells := customScaleRow(scale); cells[1] != int32(2) {
		t.Errorf("got %v", cells)
	}
}
