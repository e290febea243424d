package fieldmanager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"quintet.dev/quintet/components/apiserver/registry/registrytest"
)

// TestTyperIsTheWholeConverter: structured merge tracks a history of writes with the typer as without it.
func TestTyperIsTheWholeConverter(t *testing.T) {
	types, target := podTarget(t)
	history := []struct {
		manager string
		change  func(*corev1.Pod)
	}{
		{"creator", func(*corev1.Pod) {}},
		{"labeller", func(p *corev1.Pod) { p.Labels["more"] = "z"; delete(p.Labels, "tier") }},
		{"creator", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j"; p.Spec.Tolerations = nil }},
		{"kubelet", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "Ready", Status: "True"})
			p.Status.Phase = "Running"
		}},
		{"creator", func(*corev1.Pod) {}},
		{"kubelet", func(p *corev1.Pod) { p.Status.Conditions[0].Status = "False"; p.Finalizers = nil }},
	}
	reference, ours := referenceOf(t, types, target), New(types, target).merged
	live, current := &corev1.Pod{}, registrytest.Pod()
	for i, write := range history {
		wanted := current.DeepCopy()
		write.change(wanted)
		tracked := wanted.DeepCopy()
		ours.update(live, tracked, write.manager)
		want, err := reference.Update(live, wanted.DeepCopy(), write.manager)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(shown(want.(*corev1.Pod).ManagedFields), shown(tracked.ManagedFields)); diff != "" {
			t.Errorf("write %d by %s: -whole converter +typer\n%s", i, write.manager, diff)
		}
		live, current = tracked, tracked
	}
}

// TestConvertedDuplicates: who manages an object with the same finalizer twice can't be told when some of it is managed
// in another version, neither by structured merge itself nor here.
func TestConvertedDuplicates(t *testing.T) {
	types, targets := allTargets(t)
	target := targets["autoscaling/v2, Resource=horizontalpodautoscalers"]
	ours, err := New(types, target).merged.manager()
	if err != nil {
		t.Fatal(err)
	}
	managers := map[string]*managedfields.FieldManager{"structured merge": referenceOf(t, types, target), "ours": ours}
	for name, manager := range managers {
		for _, version := range []string{"autoscaling/v1", "autoscaling/v2"} {
			live := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			live.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version,
				FieldsType: "FieldsV1",
				FieldsV1:   metav1.NewFieldsV1(`{"f:spec":{"f:maxReplicas":{}}}`),
			}}
			live.SetGroupVersionKind(target.Body)
			wanted := live.DeepCopy()
			wanted.Finalizers = []string{"x/y", "x/y"}
			_, err := manager.Update(live, wanted, "n")
			if fails := version == "autoscaling/v1"; fails != (err != nil) {
				t.Errorf("%s, managed in %s: %v", name, version, err)
			}
		}
	}
}
