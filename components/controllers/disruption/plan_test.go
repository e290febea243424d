package disruption

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestDecide(t *testing.T) {
	now := time.Unix(10000, 0)
	pods := func(ready, unready int) []*v1.Pod {
		var all []*v1.Pod
		for i := range ready + unready {
			status := v1.ConditionTrue
			if i >= ready {
				status = v1.ConditionFalse
			}
			all = append(all, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)},
				Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: status}}}})
		}
		return all
	}
	for name, tc := range map[string]struct {
		minimum, maximum *intstr.IntOrString
		pods             []*v1.Pod
		scale            int32
		granted          map[string]metav1.Time
		want             string // expected, desired, healthy, allowed
	}{
		"minimum":         {minimum: ptr.To(intstr.FromInt32(2)), pods: pods(3, 0), want: "3 2 3 1"},
		"minimum not met": {minimum: ptr.To(intstr.FromInt32(2)), pods: pods(1, 2), want: "3 2 1 0"},
		"minimum share": {minimum: ptr.To(intstr.FromString("50%")), pods: pods(5, 0), scale: 5,
			want: "5 3 5 2"},
		"maximum":               {maximum: ptr.To(intstr.FromInt32(1)), pods: pods(3, 0), scale: 3, want: "3 2 3 1"},
		"maximum, some missing": {maximum: ptr.To(intstr.FromInt32(1)), pods: pods(2, 0), scale: 3, want: "3 2 2 0"},
		"maximum share": {maximum: ptr.To(intstr.FromString("30%")), pods: pods(7, 0), scale: 7,
			want: "7 4 7 3"},
		"no pods": {minimum: ptr.To(intstr.FromInt32(0)), want: "0 0 0 0"},
		"eviction on its way": {minimum: ptr.To(intstr.FromInt32(1)), pods: pods(3, 0),
			granted: map[string]metav1.Time{"p0": metav1.NewTime(now.Add(-time.Minute))}, want: "3 1 2 1"},
		"eviction never came": {minimum: ptr.To(intstr.FromInt32(1)), pods: pods(3, 0),
			granted: map[string]metav1.Time{"p0": metav1.NewTime(now.Add(-3 * time.Minute))}, want: "3 1 3 2"},
		"evicted and gone": {minimum: ptr.To(intstr.FromInt32(1)), pods: pods(3, 0),
			granted: map[string]metav1.Time{"other": metav1.NewTime(now)}, want: "3 1 3 2"},
	} {
		budget := &policy.PodDisruptionBudget{Spec: policy.PodDisruptionBudgetSpec{MinAvailable: tc.minimum,
			MaxUnavailable: tc.maximum}}
		budget.Status.DisruptedPods = tc.granted
		p, err := decide(observed{budget: budget, pods: tc.pods, scale: tc.scale, now: now})
		if err != nil {
			t.Fatal(err)
		}
		s := p.status
		if got := fmt.Sprint(s.ExpectedPods, s.DesiredHealthy, s.CurrentHealthy, s.DisruptionsAllowed); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestNeverAllowsTooMuch compares every budget with the definition: an eviction that is allowed leaves as many healthy
// pods as the budget wants, whatever has been granted before.
func TestNeverAllowsTooMuch(t *testing.T) {
	now := time.Unix(10000, 0)
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		scale := random.Int32N(12)
		value := intstr.FromInt32(random.Int32N(14))
		if random.IntN(2) == 0 {
			value = intstr.FromString(fmt.Sprint(random.IntN(101), "%"))
		}
		b := &policy.PodDisruptionBudget{}
		if random.IntN(2) == 0 {
			b.Spec.MinAvailable = &value
		} else {
			b.Spec.MaxUnavailable = &value
		}
		o := observed{budget: b, scale: scale, now: now}
		healthy := int32(0)
		for i := range random.IntN(12) {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
			ready, leaves, granted := random.IntN(4) > 0, random.IntN(5) == 0, random.IntN(4) == 0
			if ready {
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
			}
			if leaves {
				p.DeletionTimestamp = &metav1.Time{Time: now}
			}
			if granted {
				if b.Status.DisruptedPods == nil {
					b.Status.DisruptedPods = map[string]metav1.Time{}
				}
				b.Status.DisruptedPods[p.Name] = metav1.NewTime(now.Add(-time.Second))
			}
			if ready && !leaves && !granted {
				healthy++
			}
			o.pods = append(o.pods, p)
		}
		p, err := decide(o)
		if err != nil {
			t.Fatal(err)
		}
		s := p.status
		switch {
		case s.CurrentHealthy != healthy:
			t.Fatalf("%d healthy, want %d: %+v", s.CurrentHealthy, healthy, s)
		case s.DisruptionsAllowed < 0, s.DisruptionsAllowed > 0 && s.CurrentHealthy-s.DisruptionsAllowed < s.DesiredHealthy:
			t.Fatalf("allows %d: %+v", s.DisruptionsAllowed, s)
		case s.ExpectedPods > 0 && s.DisruptionsAllowed != max(healthy-s.DesiredHealthy, 0):
			t.Fatalf("allows %d of %d above %d", s.DisruptionsAllowed, healthy, s.DesiredHealthy)
		case b.Spec.MaxUnavailable != nil && value.Type == intstr.Int && s.DesiredHealthy != max(scale-value.IntVal, 0):
			t.Fatalf("max %s of %d: %d wanted", value.String(), scale, s.DesiredHealthy)
		}
		for name := range s.DisruptedPods {
			if _, granted := b.Status.DisruptedPods[name]; !granted {
				t.Fatalf("%s was never granted", name)
			}
		}
	}
}
