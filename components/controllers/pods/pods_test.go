package pods

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestSlowStart(t *testing.T) {
	var calls atomic.Int32
	if ok, tried, err := SlowStart(10, func(int) error { calls.Add(1); return nil }); ok != 10 || tried != 10 ||
		err != nil || calls.Load() != 10 {
		t.Errorf("%d of %d, %d calls, %v", ok, tried, calls.Load(), err)
	}
	fail := errors.New("quota")
	for from, want := range map[int]int{0: 1, 1: 3, 2: 3, 3: 7, 6: 7, 7: 10} {
		ok, tried, err := SlowStart(10, func(i int) error {
			if i >= from {
				return fail
			}
			return nil
		})
		if ok != from || tried != want || !errors.Is(err, fail) {
			t.Errorf("failing from %d: %d of %d, %v; want %d tried", from, ok, tried, err, want)
		}
	}
	if _, tried, err := SlowStart(0, func(int) error { return fail }); tried != 0 || err != nil {
		t.Errorf("nothing to do: %d %v", tried, err)
	}
}

func TestAvailable(t *testing.T) {
	now := time.Unix(1000, 0)
	pod := &v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now.Add(-7 * time.Second))}}}}
	for seconds, want := range map[int32]struct {
		available bool
		wait      time.Duration
	}{0: {true, 0}, 7: {true, 0}, 10: {false, 3 * time.Second}} {
		if available, wait := Available(pod, seconds, now); available != want.available || wait != want.wait {
			t.Errorf("after %ds: %v %v", seconds, available, wait)
		}
	}
	if available, wait := Available(&v1.Pod{}, 0, now); available || wait != 0 {
		t.Error("a pod that is not ready is available")
	}
}

func TestTemplateHash(t *testing.T) {
	template := &v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "a"}}}}
	plain := TemplateHash(template, nil)
	if again := TemplateHash(template.DeepCopy(), nil); again != plain {
		t.Errorf("equal templates: %s and %s", plain, again)
	}
	if salted := TemplateHash(template, ptr.To[int32](1)); salted == plain {
		t.Error("the collision count changes nothing")
	}
	template.Spec.Containers[0].Image = "b"
	if other := TemplateHash(template, nil); other == plain {
		t.Error("the image changes nothing")
	}
}
