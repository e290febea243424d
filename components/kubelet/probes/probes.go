// Package probes watches the health of running containers: startup, liveness and readiness
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-probes).
package probes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// Manager probes the containers of a node. It is safe for concurrent use.
type Manager struct {
	Runner *hooks.Runner
	Clock  clock.WithTicker
	// Changed is called when a probe changed its mind about a container of the pod.
	Changed func(types.UID)
	// Record records a failed probe, as an event about the container.
	Record func(pod *v1.Pod, c *v1.Container, eventType, reason, message string)
	// Probed, if set, is told of each result: "successful", "failed" or "unknown".
	Probed func(pod *v1.Pod, container, kind, result string, took time.Duration)
	// Simulated takes every probe as passed, for containers that run nothing that could be asked.
	Simulated bool

	mu   sync.Mutex
	pods map[types.UID]map[string]*run
	wait sync.WaitGroup
}

// State is what probes say of a pod's running containers, by ID.
type State struct {
	Started, Ready map[string]bool
	Unhealthy      map[string]plan.Unhealthy
}

// run is one running container under observation. What is about probes is nil for one without any.
type run struct {
	stop      context.CancelFunc
	stopFatal context.CancelFunc // ends the probes that can kill: an ending pod is only asked for readiness
	started   bool
	ready     bool
	unhealthy *plan.Unhealthy
	startedCh chan struct{} // closed when started
}

// end calls stop, if there are probes to end.
func (r *run) end(stop context.CancelFunc) {
	if stop != nil {
		stop()
	}
}

// Sync begins to probe what runs and ends to probe what does not, and returns the state. pod's status holds its
// address. Probing ends with ctx.
func (m *Manager) Sync(ctx context.Context, pod *v1.Pod, observed *runtime.Pod, ending bool,
	starting map[string]bool) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	runs := m.pods[pod.UID]
	if runs == nil {
		runs = map[string]*run{}
		if m.pods == nil {
			m.pods = map[types.UID]map[string]*run{}
		}
		m.pods[pod.UID] = runs
	}
	alive := map[string]bool{}
	for _, c := range plan.Containers(pod) {
		found := observed.Container(c.Name)
		if found == nil || found.State != runtime.Running || starting[c.Name] {
			continue
		}
		alive[found.ID] = true
		if runs[found.ID] == nil {
			runs[found.ID] = m.begin(ctx, pod, c, found, plan.IsInit(pod, c.Name) && !plan.IsSidecar(c))
		}
		if ending {
			runs[found.ID].end(runs[found.ID].stopFatal)
		}
	}
	maps.DeleteFunc(runs, func(id string, r *run) bool {
		if !alive[id] {
			r.end(r.stop)
		}
		return !alive[id]
	})
	state := State{Started: map[string]bool{}, Ready: map[string]bool{}, Unhealthy: map[string]plan.Unhealthy{}}
	for id, r := range runs {
		state.Started[id], state.Ready[id] = r.started, r.ready
		if r.unhealthy != nil && !ending {
			state.Unhealthy[id] = *r.unhealthy
		}
	}
	return state
}

// Forget ends all probes of a pod.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.pods[uid] {
		r.end(r.stop)
	}
	delete(m.pods, uid)
}

// Wait returns when all probes ended.
func (m *Manager) Wait() { m.wait.Wait() }

// begin starts the probes of a container; it is called with the lock held.
func (m *Manager) begin(parent context.Context, pod *v1.Pod, c *v1.Container, found *runtime.Container,
	plainInit bool) *run {
	r := &run{}
	told := lastStatus(pod, found.ID)
	target := hooks.Target{ID: found.ID, PodIP: pod.Status.PodIP, Container: c}
	startup := c.StartupProbe != nil && !m.Simulated && !plainInit && (told.Started == nil || !*told.Started)
	if !startup {
		r.started = true
	}
	r.ready = c.ReadinessProbe == nil || m.Simulated || plainInit || told.Ready && isReady(pod)
	if m.Simulated || plainInit || c.StartupProbe == nil && c.LivenessProbe == nil && c.ReadinessProbe == nil {
		return r
	}
	ctx, stop := context.WithCancel(parent)
	fatal, stopFatal := context.WithCancel(ctx)
	r.stop, r.stopFatal, r.startedCh = stop, stopFatal, make(chan struct{})
	if r.started {
		close(r.startedCh)
	}
	base := prober{m: m, pod: pod, target: target, run: r, since: found.Started}
	if startup {
		p := base
		p.kind, p.probe = "Startup", c.StartupProbe
		m.wait.Go(func() { p.loop(fatal) })
	}
	if c.LivenessProbe != nil {
		p := base
		p.kind, p.probe = "Liveness", c.LivenessProbe
		m.wait.Go(func() { p.loop(fatal) })
	}
	if c.ReadinessProbe != nil {
		p := base
		p.kind, p.probe = "Readiness", c.ReadinessProbe
		m.wait.Go(func() { p.loop(ctx) })
	}
	return r
}

// lastStatus is the result of a run in the pod's status: that of one which started before the kubelet did stays until a
// probe finds otherwise (KEP-4781). The status is empty if it is about another run.
func lastStatus(pod *v1.Pod, id string) v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if _, known, found := strings.Cut(list[i].ContainerID, "://"); found && known == id {
				return list[i]
			}
		}
	}
	return v1.ContainerStatus{}
}

// isReady tells that the pod's status has it ready; the node controller withdraws that from pods of a node that is
// lost.
func isReady(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// prober runs one probe of one container.
type prober struct {
	m      *Manager
	pod    *v1.Pod
	target hooks.Target
	run    *run
	kind   string
	probe  *v1.Probe
	since  time.Time

	last   bool
	streak int32
	soon   time.Duration // until the next attempt; 0 is the period
}

func (p *prober) loop(ctx context.Context) {
	if p.kind != "Startup" { // the others wait for it
		select {
		case <-p.run.startedCh:
		case <-ctx.Done():
			return
		}
	}
	delay := time.Duration(p.probe.InitialDelaySeconds)*time.Second - p.m.Clock.Since(p.since)
	if delay > 0 {
		select {
		case <-p.m.Clock.After(delay):
		case <-ctx.Done():
			return
		}
	}
	period := time.Duration(max(p.probe.PeriodSeconds, 1)) * time.Second
	ticker := p.m.Clock.NewTicker(period)
	defer ticker.Stop()
	between := false // periods
	for {
		if p.once(ctx, between) {
			return
		}
		var sooner <-chan time.Time
		if p.soon > 0 && p.soon < period {
			sooner = p.m.Clock.After(p.soon)
		}
		select {
		case <-sooner:
			between = true
		case <-ticker.C():
			between = false
		case <-ctx.Done():
			return
		}
	}
}

// firstRetry is how soon readiness is asked for again where nothing listened yet; each further time it takes twice as
// long.
const firstRetry = 100 * time.Millisecond

// hasten has a container that begins to listen be ready soon after that, not a period later as with upstream. It sees
// no more of its probes than with upstream: those before did not reach it.
func (p *prober) hasten(err error) {
	p.m.mu.Lock()
	ready := p.run.ready
	p.m.mu.Unlock()
	switch {
	case p.kind != "Readiness" || ready || !errors.Is(err, syscall.ECONNREFUSED):
		p.soon = 0
	case p.soon == 0:
		p.soon = firstRetry
	case p.soon < time.Hour:
		p.soon *= 2
	}
}

// once probes and takes the result in; it tells whether the probe has nothing more to do. What fails between periods
// has no event: there are as many as with upstream.
func (p *prober) once(parent context.Context, between bool) bool {
	ctx, cancel := context.WithTimeout(parent, time.Duration(max(p.probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	warning, err := p.timed(ctx, parent)
	if parent.Err() != nil {
		return true
	}
	if err == nil || !between {
		p.tell(warning, err)
	}
	p.hasten(err)
	var unknown *hooks.UnknownError
	if errors.As(err, &unknown) {
		return false // it counts neither way
	}
	ok := err == nil
	if ok == p.last && p.streak > 0 {
		p.streak++
	} else {
		p.last, p.streak = ok, 1
	}
	threshold := max(p.probe.SuccessThreshold, 1)
	if !ok {
		threshold = max(p.probe.FailureThreshold, 1)
	}
	if p.streak < threshold {
		return false
	}
	return p.verdict(ok)
}

// timed runs the probe once and tells how it went, unless it was cut short.
func (p *prober) timed(ctx, parent context.Context) (warning string, err error) {
	if p.m.Probed == nil {
		return p.ask(ctx)
	}
	began := p.m.Clock.Now()
	warning, err = p.ask(ctx)
	if parent.Err() == nil {
		p.m.Probed(p.pod, p.target.Container.Name, p.kind, outcome(err), p.m.Clock.Since(began))
	}
	return warning, err
}

// outcome is upstream's name for the result of a probe.
func outcome(err error) string {
	var unknown *hooks.UnknownError
	switch {
	case err == nil:
		return "successful"
	case errors.As(err, &unknown):
		return "unknown"
	}
	return "failed"
}

// tell records an event about what went wrong, in upstream's words.
func (p *prober) tell(warning string, err error) {
	reason, text := "Unhealthy", ""
	var unknown *hooks.UnknownError
	var exit *hooks.ExitError
	switch {
	case errors.As(err, &unknown):
		text = " probe errored and resulted in unknown state: " + err.Error()
	case errors.As(err, &exit):
		text = " probe failed: " + exit.Output
	case err != nil:
		text = " probe failed: " + err.Error()
	case warning != "":
		reason, text = "ProbeWarning", " probe warning: "+warning
	default:
		return
	}
	p.m.Record(p.pod, p.target.Container, v1.EventTypeWarning, reason, p.kind+text)
}

// ask runs the probe once; it may pass with a warning.
func (p *prober) ask(ctx context.Context) (warning string, err error) {
	r := p.m.Runner
	switch h := p.probe.ProbeHandler; {
	case h.Exec != nil:
		return "", r.Exec(ctx, p.target, h.Exec)
	case h.HTTPGet != nil:
		return r.HTTP(ctx, p.target, h.HTTPGet)
	case h.TCPSocket != nil:
		return "", r.TCP(ctx, p.target, h.TCPSocket)
	case h.GRPC != nil:
		return "", r.GRPC(ctx, p.target, h.GRPC)
	}
	return "", nil
}

// verdict applies a result that lasted long enough.
func (p *prober) verdict(ok bool) (end bool) {
	p.m.mu.Lock()
	changed := false
	switch {
	case p.kind == "Readiness":
		changed = p.run.ready != ok
		p.run.ready = ok
	case !ok:
		name := map[string]string{"Liveness": "liveness", "Startup": "startup"}[p.kind]
		p.run.unhealthy = &plan.Unhealthy{Probe: name, Grace: p.probe.TerminationGracePeriodSeconds}
		changed, end = true, true
	case p.kind == "Startup":
		p.run.started = true
		close(p.run.startedCh)
		changed, end = true, true
	}
	p.m.mu.Unlock()
	if changed {
		p.m.Changed(p.pod.UID)
	}
	return end
}
