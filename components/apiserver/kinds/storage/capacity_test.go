package storage

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOldTopology: a topology stays, even one with a value that no label can have.
func TestOldTopology(t *testing.T) {
	of := func(value string) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{StorageClassName: "s", NodeTopology: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{value}}},
		}}
	}
	if errs := ValidateCapacity(of("!")); len(errs) != 1 {
		t.Errorf("on create: %v", errs)
	}
	if errs := ValidateCapacityUpdate(of("!"), of("b")); len(errs) != 1 {
		t.Errorf("after a good one: %v", errs)
	}
	if errs := ValidateCapacityUpdate(of("!"), of("!")); len(errs) != 0 {
		t.Errorf("after a bad one: %v", errs)
	}
}
