package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// sim is a node with one pod: it plans, and applies plans at once to containers that exist only in memory.
type sim struct {
	in    Input
	start time.Time
}

func newSim() *sim {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &sim{start: start, in: Input{
		Pod:      &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"}},
		Observed: &runtime.Pod{UID: "uid"},
		Now:      start,
		Stopping: map[string]time.Time{}, Backoff: map[string]Backoff{}, NotBefore: map[string]time.Time{},
		Limits:  Limits{Initial: 10 * time.Second, Max: 300 * time.Second},
		Started: map[string]bool{}, Unhealthy: map[string]Unhealthy{},
	}}
}

// describe sets the pod from words: restart=Always grace=30 init=a,b:Always containers=c,d:Never/42; a rule with ! is
// about all containers
func (s *sim) describe(words []string) error {
	spec := &s.in.Pod.Spec
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "restart":
			spec.RestartPolicy = v1.RestartPolicy(value)
		case "grace":
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return err
			}
			spec.TerminationGracePeriodSeconds = &seconds
		case "init":
			spec.InitContainers = containers(value)
		case "containers":
			spec.Containers = containers(value)
		default:
			return fmt.Errorf("unknown word %q", word)
		}
	}
	return nil
}

func containers(list string) []v1.Container {
	var all []v1.Container
	for _, text := range strings.Split(list, ",") {
		name, policy, own := strings.Cut(text, ":")
		c := v1.Container{Name: name, Image: "image"}
		if own {
			policy, code, rule := strings.Cut(policy, "/")
			restart := v1.ContainerRestartPolicy(policy)
			c.RestartPolicy = &restart
			if rule {
				action := v1.ContainerRestartRuleActionRestart
				if strings.HasSuffix(code, "!") {
					action = v1.ContainerRestartRuleActionRestartAllContainers
				}
				n, _ := strconv.Atoi(strings.TrimSuffix(code, "!"))
				c.RestartPolicyRules = []v1.ContainerRestartRule{{
					Action: action,
					ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
						Values: []int32{int32(n)}},
				}}
			}
		}
		all = append(all, c)
	}
	return all
}

func (s *sim) plan() Plan { return Compute(&s.in) }

// apply does what a plan says; stopped containers exit with 143.
func (s *sim) apply(p Plan) {
	for _, a := range p.Actions {
		s.do(a)
	}
	for name, backoff := range p.Backoff {
		s.in.Backoff[name] = backoff
	}
	slices.SortStableFunc(s.in.Observed.Containers,
		func(a, b runtime.Container) int { return cmp.Compare(b.Attempt, a.Attempt) })
}

func (s *sim) do(a Action) {
	pod := s.in.Observed
	switch a.Kind {
	case CreateSandbox:
		pod.Sandboxes = slices.Insert(pod.Sandboxes, 0,
			runtime.Sandbox{ID: fmt.Sprintf("sandbox-%d", a.Attempt), Attempt: a.Attempt, State: runtime.Running})
	case StartContainer:
		id := fmt.Sprintf("%s-%d", a.Name, a.Attempt)
		pod.Containers = slices.DeleteFunc(pod.Containers, func(c runtime.Container) bool { return c.ID == id })
		var hash string
		for _, c := range Containers(s.in.Pod) {
			if c.Name == a.Name {
				hash = Hash(c)
			}
		}
		pod.Containers = slices.Insert(pod.Containers, 0, runtime.Container{
			ID: id, Name: a.Name, Attempt: a.Attempt, SandboxID: pod.Sandboxes[0].ID, State: runtime.Running,
			Created: s.in.Now, Started: s.in.Now, Hash: hash,
		})
		s.in.Started[id] = true
	case StopContainer:
		s.exit(a.ID, 143)
	case StopSandbox:
		for i := range pod.Sandboxes {
			if pod.Sandboxes[i].ID == a.ID {
				pod.Sandboxes[i].State = runtime.Exited
			}
		}
	case Remove:
		pod.Containers = slices.DeleteFunc(pod.Containers, func(c runtime.Container) bool { return c.ID == a.ID })
		pod.Sandboxes = slices.DeleteFunc(pod.Sandboxes, func(c runtime.Sandbox) bool { return c.ID == a.ID })
	}
}

func (s *sim) exit(id string, code int) {
	for i := range s.in.Observed.Containers {
		if c := &s.in.Observed.Containers[i]; c.ID == id && c.State == runtime.Running {
			c.State, c.ExitCode, c.Finished = runtime.Exited, code, s.in.Now
			delete(s.in.Unhealthy, id)
		}
	}
}

func (a Action) String() string {
	text := string(a.Kind)
	switch a.Kind {
	case CreateSandbox:
		text += fmt.Sprintf(" attempt=%d", a.Attempt)
	case StartContainer:
		text += fmt.Sprintf(" %s attempt=%d", a.Name, a.Attempt)
	case StopContainer:
		text += fmt.Sprintf(" %s grace=%v: %s", a.ID, a.Grace, a.Message)
	default:
		text += " " + a.ID
	}
	return text
}

// print renders a plan for golden files.
func (s *sim) print(p Plan) string {
	var out strings.Builder
	for _, a := range p.Actions {
		fmt.Fprintln(&out, a)
	}
	for _, c := range Containers(s.in.Pod) {
		if why, ok := p.Waiting[c.Name]; ok {
			fmt.Fprintf(&out, "%s waits: %s: %s\n", c.Name, why.Reason, why.Message)
		}
	}
	if !p.WakeAt.IsZero() {
		fmt.Fprintf(&out, "wake in %v\n", p.WakeAt.Sub(s.in.Now))
	}
	if p.Finished {
		fmt.Fprintln(&out, "finished")
	}
	if p.Done {
		fmt.Fprintln(&out, "done")
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}
