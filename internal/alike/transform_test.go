package alike

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// TestTransform: pods come without managed fields, share what they have in common, and lose nothing else.
func TestTransform(t *testing.T) {
	var pool Pool
	var last *corev1.Pod
	for i := range 3 {
		want := pod(i)
		want.ManagedFields = nil
		got, err := pool.Transform(pod(i))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
		last = got.(*corev1.Pod)
	}
	next, _ := pool.Transform(pod(3))
	if &next.(*corev1.Pod).Spec.Tolerations[0] != &last.Spec.Tolerations[0] {
		t.Error("tolerations that are the same lie in memory twice")
	}
	unknown := cache.DeletedFinalStateUnknown{Key: "k"}
	if same, err := pool.Transform(unknown); err != nil || fmt.Sprint(same) != fmt.Sprint(unknown) {
		t.Errorf("what is no object: %v, %v", same, err)
	}
}
