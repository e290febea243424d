package fieldmanager

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCompareTimes: new times are taken back where nothing else is new, and how that was found out is told.
func TestCompareTimes(t *testing.T) {
	tracked := func(manager string, hour int, value string) *corev1.ConfigMap {
		at := metav1.NewTime(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC))
		obj := &corev1.ConfigMap{Data: map[string]string{"a": value}}
		obj.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Time: &at}}
		return obj
	}
	for want, obj := range map[string]*corev1.ConfigMap{
		"equal_objects":        tracked("me", 2, "1"),
		"unequal_objects_slow": tracked("me", 2, "2"),
		"unequal_objects_fast": tracked("you", 2, "1"),
	} {
		if got := compareTimes(obj, tracked("me", 1, "1")); got != want {
			t.Errorf("%s: %s", want, got)
		}
		if kept := obj.ManagedFields[0].Time.Hour() == 1; kept != (want == "equal_objects") {
			t.Errorf("%s: the old time was kept: %v", want, kept)
		}
	}
	if got := compareTimes(tracked("me", 1, "2"), tracked("me", 1, "1")); got != unequalFast {
		t.Errorf("the same times: %s", got)
	}
}
