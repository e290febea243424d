package plan

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// TestConverges lets pods of all shapes live through accidents. Whatever happened, applying plans ends in no more
// actions, with everything running that should, or with nothing running at all.
func TestConverges(t *testing.T) {
	for seed := range int64(3000) {
		random := rand.New(rand.NewSource(seed))
		s := randomSim(random)
		for range random.Intn(12) {
			s.apply(s.plan())
			s.accident(random)
		}
		if random.Intn(2) == 0 {
			s.in.Stop = &Stop{Since: s.in.Now, Grace: time.Duration(random.Intn(40)) * time.Second}
		}
		clear(s.in.Unhealthy)
		s.in.Busy = false
		if err := s.settle(); err != nil {
			t.Fatalf("seed %d: %v\npod: %+v\nobserved: %+v", seed, err, s.in.Pod.Spec, s.in.Observed)
		}
	}
}

func randomSim(random *rand.Rand) *sim {
	s := newSim()
	policies := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}
	s.in.Pod.Spec.RestartPolicy = policies[random.Intn(3)]
	always := v1.ContainerRestartPolicyAlways
	for i := range random.Intn(4) {
		c := v1.Container{Name: fmt.Sprintf("i%d", i), Image: "image"}
		if random.Intn(2) == 0 {
			c.RestartPolicy = &always
		}
		s.in.Pod.Spec.InitContainers = append(s.in.Pod.Spec.InitContainers, c)
	}
	for i := range 1 + random.Intn(3) {
		s.in.Pod.Spec.Containers = append(s.in.Pod.Spec.Containers,
			v1.Container{Name: fmt.Sprintf("c%d", i), Image: "image"})
	}
	if random.Intn(4) == 0 { // KEP-5532
		own := v1.ContainerRestartPolicyNever
		c := &s.in.Pod.Spec.Containers[0]
		c.RestartPolicy, c.RestartPolicyRules = &own, []v1.ContainerRestartRule{{
			Action: v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
				Values: []int32{1}},
		}}
	}
	return s
}

func (s *sim) accident(random *rand.Rand) {
	s.in.Now = s.in.Now.Add(time.Duration(random.Intn(400)) * time.Second)
	s.in.Busy = random.Intn(8) == 0
	observed := s.in.Observed
	if n := len(observed.Containers); n > 0 {
		c := &observed.Containers[random.Intn(n)]
		switch random.Intn(6) {
		case 0, 1:
			s.exit(c.ID, random.Intn(2))
		case 2:
			delete(s.in.Started, c.ID)
		case 3:
			s.in.Unhealthy[c.ID] = Unhealthy{Probe: "liveness"}
		case 4:
			if c.State == runtime.Running {
				c.State = runtime.Created // as if the kubelet died between create and start
			}
		}
	}
	if len(observed.Sandboxes) > 0 && random.Intn(10) == 0 {
		observed.Sandboxes[0].State = runtime.Exited
	}
	if random.Intn(10) == 0 {
		s.in.Pod.Spec.Containers[0].Image += "x"
	}
}

// settle applies plans until nothing is left to do. Init containers end well after a while.
func (s *sim) settle() error {
	for range 200 {
		for i := range s.in.Observed.Containers { // startup probes pass
			s.in.Started[s.in.Observed.Containers[i].ID] = true
		}
		p := s.plan()
		if len(p.Actions) == 0 && p.WakeAt.IsZero() {
			if s.finishInit() {
				continue
			}
			return s.check(p)
		}
		s.apply(p)
		if len(p.Actions) == 0 {
			s.in.Now = p.WakeAt
		}
	}
	return fmt.Errorf("no end of actions: %v", s.plan().Actions)
}

func (s *sim) finishInit() bool {
	for i := range s.in.Pod.Spec.InitContainers {
		c := &s.in.Pod.Spec.InitContainers[i]
		if run := s.in.Observed.Container(c.Name); !IsSidecar(c) && run != nil && run.State == runtime.Running {
			s.exit(run.ID, 0)
			return true
		}
	}
	return false
}

func (s *sim) check(p Plan) error {
	running := map[string]int{}
	for i := range s.in.Observed.Containers {
		if c := &s.in.Observed.Containers[i]; c.State == runtime.Running {
			running[c.Name]++
		}
	}
	if s.in.Stop != nil || p.Finished {
		if len(running) > 0 || !p.Done {
			return fmt.Errorf("over, but %v run and done=%v", running, p.Done)
		}
		return nil
	}
	for _, c := range Containers(s.in.Pod) {
		run := s.in.Observed.Container(c.Name)
		switch {
		case running[c.Name] > 1:
			return fmt.Errorf("%s runs %d times", c.Name, running[c.Name])
		case IsSidecar(c) && running[c.Name] != 1:
			return fmt.Errorf("sidecar %s does not run", c.Name)
		case !IsInit(s.in.Pod, c.Name) && running[c.Name] == 0 && (run == nil || s.in.restarts(c, run)):
			return fmt.Errorf("%s should run", c.Name)
		}
	}
	return nil
}

func TestBackoff(t *testing.T) {
	limits := Limits{Initial: 10 * time.Second, Max: 300 * time.Second}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b Backoff
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		if left := b.Remaining(now, now, limits); left != b.Delay {
			t.Errorf("use %d: %v remain of %v", i, left, b.Delay)
		}
		now = now.Add(b.Delay)
		if b = b.Next(now, now, limits); b.Delay != want*time.Second {
			t.Errorf("use %d: delay %v, want %vs", i, b.Delay, want)
		}
	}
	later := now.Add(2*limits.Max + time.Second)
	if left := b.Remaining(later, later, limits); left != 0 {
		t.Errorf("after a long run %v remain", left)
	}
	if b = b.Next(later, later, limits); b.Delay != limits.Initial {
		t.Errorf("after a long run the delay is %v", b.Delay)
	}
}
