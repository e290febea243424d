package pods

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/runtime/hollow"
)

// TestInterleavings lets versions of pods, deletions, events and answers of the engine come in random orders. However
// they come, no sandbox or container is started twice as the same attempt, nothing is started once a deletion was seen,
// a final phase stays, and the worker of a pod that is gone ends when its containers are removed.
func TestInterleavings(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &storm{t: t, random: rand.New(rand.NewPCG(seed, 0)), gate: newGate(t),
					pods: map[types.UID]*stormPod{}}
				s.gate.holdBack(func(types.UID, string) bool { return true })
				s.gate.did = s.did
				var stop func()
				s.manager, stop = runManager(t, s.gate)
				for i := range 3 {
					s.add(types.UID(fmt.Sprint("p", i)))
				}
				for range 300 {
					s.step()
					synctest.Wait()
					s.check()
				}
				s.finish()
				stop()
			})
		})
	}
}

// storm is a manager, what happens to it, and what is known to have happened.
type storm struct {
	t       *testing.T
	random  *rand.Rand
	gate    *gate
	manager *Manager
	version int

	mu   sync.Mutex
	pods map[types.UID]*stormPod
}

type stormPod struct {
	pod    *v1.Pod // as the API has it
	gone   bool    // from the API
	ending bool    // the worker saw a deletion
	seen   int     // the newest version that the worker published
	final  v1.PodPhase
	starts map[string]bool // of attempts
}

func (s *storm) add(uid types.UID) {
	pod := simplePod(uid)
	pod.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure,
		v1.RestartPolicyNever}[s.random.IntN(3)]
	if s.random.IntN(2) == 0 {
		pod.Annotations = map[string]string{
			hollow.RunFor:   (time.Duration(1+s.random.IntN(5)) * time.Second).String(),
			hollow.ExitCode: strconv.Itoa(s.random.IntN(2)),
		}
	}
	if s.random.IntN(2) == 0 {
		always := v1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = []v1.Container{{Name: "side", Image: "image:1", RestartPolicy: &always}}
	}
	s.mu.Lock()
	s.pods[uid] = &stormPod{pod: pod, starts: map[string]bool{}}
	s.mu.Unlock()
	s.manager.Set(pod)
}

// did checks what the engine does as it does it.
func (s *storm) did(uid types.UID, what, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil {
		return
	}
	if p.ending && (what == "sandbox" || what == "create" || what == "start") {
		s.t.Errorf("%s of %s after its deletion was seen", what, uid)
	}
	if what == "start" {
		_, name := s.gate.known(id)
		if p.starts[name] {
			s.t.Errorf("%s is started twice", name)
		}
		p.starts[name] = true
	}
}

func (s *storm) pick() *stormPod {
	return s.pods[types.UID(fmt.Sprint("p", s.random.IntN(len(s.pods))))]
}

// step lets one thing happen.
func (s *storm) step() {
	p := s.pick()
	uid := p.pod.UID
	switch n := s.random.IntN(40); {
	case n < 27:
		s.answer(s.random.IntN(20) == 0)
	case n < 28:
		time.Sleep(time.Duration(s.random.IntN(5000)) * time.Millisecond)
	case n < 29:
		s.manager.Wake(uid)
	case n < 30:
		s.manager.Refresh([]types.UID{uid})
	case n < 31:
		s.manager.Synced() // and so a relist
	case n < 33:
		s.exit(uid)
	case p.gone:
	case n < 34:
		s.change(p, func(pod *v1.Pod) { pod.Labels = map[string]string{"version": strconv.Itoa(s.version)} })
		s.manager.Set(p.pod)
	case n < 36: // the answer to a write of before
		answer := p.pod.DeepCopy()
		s.change(p, func(*v1.Pod) {})
		s.manager.Set(p.pod)
		s.manager.Written(answer)
	case n < 37:
		s.change(p, func(pod *v1.Pod) {
			pod.Spec.Containers[0].Image = "image:" +
				strconv.Itoa(s.version)
			pod.Generation++
		})
		s.manager.Set(p.pod)
	case n < 38:
		s.manager.post(uid, func(e *events) {
			e.evict = &rejection{reason: evicted, message: "too large",
				within: evictionGrace}
		})
	case n < 39:
		s.delete(p)
	case p.pod.DeletionTimestamp != nil || s.random.IntN(4) == 0:
		p.gone = true
		s.manager.Gone(p.pod)
	}
}

func (s *storm) change(p *stormPod, change func(*v1.Pod)) {
	s.version++
	p.pod = p.pod.DeepCopy()
	p.pod.ResourceVersion = strconv.Itoa(1 + s.version)
	change(p.pod)
}

func (s *storm) delete(p *stormPod) {
	s.change(p, func(pod *v1.Pod) {
		grace := int64(s.random.IntN(3))
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &grace
	})
	s.manager.Set(p.pod)
}

// answer lets one call of the engine go on, or refuses it.
func (s *storm) answer(refuse bool) bool {
	c := s.gate.held(s.random.IntN)
	if c == nil {
		return false
	}
	if refuse {
		c.done <- errRefused
	} else {
		c.done <- nil
	}
	return true
}

// exit ends a container of a pod, as if by itself.
func (s *storm) exit(uid types.UID) {
	pod, err := s.gate.Engine.Pod(s.t.Context(), uid)
	if err != nil || len(pod.Containers) == 0 {
		return
	}
	if err := s.gate.Engine.Stop(s.t.Context(), pod.Containers[0].ID, 0); err != nil {
		s.t.Error(err)
	}
}

// check compares what workers publish with what was published before.
func (s *storm) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, p := range s.pods {
		s.manager.mu.Lock()
		w := s.manager.workers[uid]
		s.manager.mu.Unlock()
		if w == nil {
			if !p.gone {
				s.t.Errorf("the worker of %s ended, but the pod is there", uid)
			}
			continue
		}
		now := w.published.Load()
		seen, err := strconv.Atoi(now.pod.ResourceVersion)
		if err != nil || seen < p.seen {
			s.t.Errorf("%s: version %q came after %d, %v", uid, now.pod.ResourceVersion, p.seen, err)
		}
		p.seen = seen
		p.ending = p.ending || now.gone || now.pod.DeletionTimestamp != nil
		if (p.gone || p.pod.DeletionTimestamp != nil) && !p.ending {
			s.t.Errorf("the deletion of %s was not seen", uid)
		}
		if now.status == nil {
			continue
		}
		if p.final != "" && now.status.Phase != p.final {
			s.t.Errorf("%s was %s and is %s", uid, p.final, now.status.Phase)
		}
		if ended(now.status.Phase) {
			p.final = now.status.Phase
		}
	}
}

// finish takes all pods out of the API and lets the engine answer until nothing is left.
func (s *storm) finish() {
	for _, p := range s.pods {
		if !p.gone {
			p.gone = true
			s.manager.Gone(p.pod)
		}
	}
	for range 200 {
		for synctest.Wait(); s.answer(false); synctest.Wait() {
			s.check()
		}
		time.Sleep(time.Second)
	}
	synctest.Wait()
	if left, err := s.gate.Engine.Pods(s.t.Context()); err != nil || len(left) != 0 || len(s.manager.workers) != 0 {
		s.t.Errorf("left: %+v, %d workers, %v", left, len(s.manager.workers), err)
	}
	s.gate.holdBack(func(types.UID, string) bool { return false })
}
