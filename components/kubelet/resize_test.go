package kubelet

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestResize: a pod gets other resources while it runs, at once where there are enough, else when others have gone.
func TestResize(t *testing.T) {
	r := start(t, fake.NewClientset(), newEngine()) // of 4 CPUs
	requests := func(cpu string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
		}
	}
	r.create("other", requests("2"))
	r.create("p", requests("1"))
	r.awaitPhase("other", v1.PodRunning)
	before := r.awaitPhase("p", v1.PodRunning).Status.ContainerStatuses[0]
	condition := func(p *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
		if i := slices.IndexFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == kind }); i >= 0 {
			return &p.Status.Conditions[i]
		}
		return nil
	}
	resize := func(cpu string) {
		p, err := r.client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		requests(cpu)(p)
		p.Generation++
		if _, err := r.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(milli, allocated, generation int64) func() bool {
		return func() bool {
			p, err := r.client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil || len(p.Status.ContainerStatuses) != 1 || p.Status.ObservedGeneration != generation {
				return false
			}
			c := &p.Status.ContainerStatuses[0]
			return c.Resources.Requests.Cpu().MilliValue() == milli &&
				c.AllocatedResources.Cpu().MilliValue() == allocated &&
				condition(p, v1.PodResizeInProgress) == nil && c.ContainerID == before.ContainerID
		}
	}
	resize("1500m")
	r.await("it has 1500m", has(1500, 1500, 2))
	resize("3")
	r.await("it waits", func() bool {
		p, err := r.client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			return false
		}
		c := condition(p, v1.PodResizePending)
		return c != nil && c.Reason == v1.PodReasonDeferred && c.ObservedGeneration == 3
	})
	if !has(1500, 1500, 3)() {
		t.Error("it got what there isn't")
	}
	resize("5")
	r.await("it can't be", func() bool {
		p, err := r.client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		c := condition(p, v1.PodResizePending)
		return err == nil && c != nil && c.Reason == v1.PodReasonInfeasible
	})
	resize("3")
	if err := r.client.CoreV1().Pods("ns").Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.await("it has 3", has(3000, 3000, 5))
}
