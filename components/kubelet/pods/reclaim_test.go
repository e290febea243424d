package pods

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime/hollow"
)

// Containers of pods that ended are reclaimed once the API knows how they ended; what is told of them stays.
func TestReclaimContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newGate(t)
		m, stop := runManager(t, engine)
		defer stop()
		running, finished := simplePod("running"), simplePod("finished")
		finished.Spec.RestartPolicy = v1.RestartPolicyNever
		finished.Annotations = map[string]string{hollow.RunFor: "5s"}
		m.Set(running)
		m.Set(finished)
		time.Sleep(time.Minute)
		containers := func(pod *v1.Pod) int {
			found, err := engine.Pod(t.Context(), pod.UID)
			if err != nil {
				t.Fatal(err)
			}
			return len(found.Containers)
		}
		reclaim := func() {
			t.Helper()
			if err := m.ReclaimContainers(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		reclaim()
		if phase := phaseOf(m, "finished"); phase != v1.PodSucceeded || containers(finished) != 1 {
			t.Fatalf("before the API knows: %s, %d containers", phase, containers(finished))
		}
		known := finished.DeepCopy()
		known.Status, known.ResourceVersion = m.Find("ns", "finished").Status, "2"
		m.Set(known)
		time.Sleep(time.Second)
		reclaim()
		if containers(finished) != 0 || containers(running) != 1 {
			t.Errorf("%d containers of the one that ended, %d of the one that runs", containers(finished), containers(running))
		}
		s := m.Find("ns", "finished").Status
		if s.Phase != v1.PodSucceeded || s.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("status %+v", s)
		}
	})
}
