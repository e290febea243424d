package pods

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/runtime/hollow"
)

// An engine that does not answer about one pod holds up neither another pod nor questions about pods.
func TestSlowEngineHoldsUpOnePod(t *testing.T) {
	for _, what := range []string{"inspect", "logs", "sandbox", "start"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t)
				g.holdBack(func(uid types.UID, asked string) bool { return uid == "slow" && asked == what })
				m, stop := runManager(t, g)
				slow := simplePod("slow")
				slow.Annotations = map[string]string{hollow.RunFor: "1s", hollow.ExitCode: "1"}
				slow.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
				m.Set(slow)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if len(g.waiting) == 0 {
					t.Fatal("the engine is not asked")
				}
				m.Set(simplePod("fast"))
				synctest.Wait()
				if phase := phaseOf(m, "fast"); phase != v1.PodRunning {
					t.Errorf("the other pod is %q", phase)
				}
				deleted := slow.DeepCopy()
				deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				m.Set(deleted)
				synctest.Wait()
				if pod := m.Find("ns", "slow"); pod.DeletionTimestamp == nil {
					t.Error("the deletion is not known")
				}
				for c := g.held(func(int) int { return 0 }); c != nil; c = g.held(func(int) int { return 0 }) {
					c.done <- errRefused
					synctest.Wait()
				}
				g.holdBack(func(types.UID, string) bool { return false })
				time.Sleep(time.Minute)
				synctest.Wait()
				stop()
			})
		})
	}
}

// A list of all containers makes those pods be observed that it shows otherwise than they were.
func TestRelistWakesWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		inspected := map[types.UID]int{}
		g.did = func(uid types.UID, what, _ string) {
			if what == "inspect" {
				g.mu.Lock()
				inspected[uid]++
				g.mu.Unlock()
			}
		}
		m, stop := runManager(t, g)
		m.Set(simplePod("same"))
		m.Set(simplePod("other"))
		time.Sleep(time.Second)
		synctest.Wait()
		clear(inspected)
		m.relist(t.Context())
		synctest.Wait()
		if len(inspected) != 0 {
			t.Errorf("nothing changed, but %v were observed", inspected)
		}
		w := m.workers["other"]
		changed, err := g.Engine.Pod(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		changed.Containers[0].ExitCode++
		w.inbox.post(func(e *events) { e.listed = &changed })
		synctest.Wait()
		if len(inspected) != 1 || inspected["other"] == 0 {
			t.Errorf("observed: %v", inspected)
		}
		stop()
	})
}

// A pod about which nothing is to be done costs no goroutine.
func TestIdlePodsHaveNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stop := runManager(t, newGate(t))
		synctest.Wait() // the manager's own are running
		before := runtime.NumGoroutine()
		const pods = 50
		for i := range pods {
			m.Set(simplePod(types.UID(fmt.Sprint("p", i))))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got := runtime.NumGoroutine() - before
		for try := 0; got > 0 && try < 1000; try++ { // one that has ended is counted for a moment
			time.Sleep(time.Millisecond)
			synctest.Wait()
			got = runtime.NumGoroutine() - before
		}
		if got > 0 {
			t.Errorf("%d goroutines for %d pods", got, pods)
		}
		if phase := phaseOf(m, "p0"); phase != v1.PodRunning {
			t.Errorf("a pod is %q", phase)
		}
		stop()
	})
}
