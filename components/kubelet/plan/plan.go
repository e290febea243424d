// Package plan decides what a kubelet does next for one pod. It is pure: the pod as wanted, its containers as
// observed, the time and the memory of earlier failures go in; actions come out. Applying the actions and
// planning again ends, sooner or later, in no actions.
package plan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Input is everything a decision depends on.
type Input struct {
	Pod      *v1.Pod
	Observed *runtime.Pod
	Now      time.Time

	// Stop is set once the pod must end: it was deleted, evicted, rejected or ran too long.
	Stop *Stop
	// Busy tells that starting (a sandbox or containers) is under way: nothing else is started.
	Busy bool
	// Stopping holds the deadline of each stop under way, by ID of container or sandbox.
	Stopping map[string]time.Time
	// Backoff of restarts, by name of container.
	Backoff map[string]Backoff
	// NotBefore delays the next attempt to start a container after one that made no container (no image, no
	// configuration), by name of container; the sandbox's name is "".
	NotBefore map[string]time.Time
	// Limits of the back-off.
	Limits Limits
	// Started holds the IDs of containers whose startup probe (if any) passed.
	Started map[string]bool
	// Resources are what containers are to have, by name; running ones that have other are resized. Containers without
	// an entry are left as they are.
	Resources map[string]runtime.Resources
	// Renewed holds the IDs of containers that were stopped to be started again, whatever their restart policy.
	Renewed map[string]bool
	// Resizing holds containers whose resize is under way (zero) or failed, and when it is tried again, by ID.
	Resizing map[string]time.Time
	// Unhealthy holds running containers that a probe condemned, by ID.
	Unhealthy map[string]Unhealthy
}

// Stop is when the termination of a pod started, and its grace period.
type Stop struct {
	Since time.Time
	Grace time.Duration
}

// Unhealthy tells which probe condemned a container, and the grace that the probe gives it (nil: the pod's).
type Unhealthy struct {
	Probe string // "liveness" or "startup"
	Grace *int64 // seconds
}

// Action is one thing to do. Actions of one plan that start something are done in order, one after the other;
// the others are independent.
type Action struct {
	Kind    Kind
	Name    string        // of the container
	ID      string        // of the container or sandbox, for those that exist
	Attempt int           // of the sandbox or container to make
	Grace   time.Duration // for stops
	Message string        // why, for people
	// Resources are what the container gets, for resizes.
	Resources runtime.Resources
}

// Kind is what an action does.
type Kind string

// The kinds of actions.
const (
	CreateSandbox   Kind = "create sandbox"
	StartContainer  Kind = "start container"
	ResizeContainer Kind = "resize container"
	StopContainer   Kind = "stop container"
	StopSandbox     Kind = "stop sandbox"
	Remove          Kind = "remove"
)

// Plan is a decision.
type Plan struct {
	Actions []Action
	// Waiting explains which containers are not restarted yet.
	Waiting map[string]Waiting
	// Backoff are the restarts that the actions use up; remember them when they are applied.
	Backoff map[string]Backoff
	// Renewed are the containers that are stopped to be started again, by ID: remember them.
	Renewed []string
	// RestartAll holds the runs that RestartAllContainers ended, by ID; Pending tells that no container was started
	// since.
	RestartAll map[string]bool
	Pending    bool
	// WakeAt is when to plan again if nothing happens before; zero is never.
	WakeAt time.Time
	// Ended are the containers that ended for good, by name: whatever went wrong when they were started, how they ended
	// is what counts.
	Ended map[string]bool
	// Finished: the pod ended or is ending by itself; it will not be restarted.
	Finished bool
	// Done: nothing runs any more and nothing will.
	Done bool
}

// Waiting is why a container does not run.
type Waiting struct{ Reason, Message string }

type planner struct {
	in   *Input
	plan Plan
}

// Compute returns the actions that bring the pod closer to its spec.
func Compute(in *Input) Plan {
	p := &planner{in: in, plan: Plan{Waiting: map[string]Waiting{}, Backoff: map[string]Backoff{}}}
	switch stop, over := in.Stop, finished(in); {
	case stop != nil:
		p.stop(*stop)
	case over:
		p.plan.Finished = true
		p.stop(Stop{Since: lastFinish(in.Observed), Grace: Grace(in.Pod)})
	default:
		p.run()
	}
	p.plan.RestartAll, p.plan.Pending = restartAll(in)
	p.plan.Ended = ended(in, in.Stop != nil || p.plan.Finished)
	p.collect()
	return p.plan
}

func (p *planner) add(a Action) { p.plan.Actions = append(p.plan.Actions, a) }

func (p *planner) wake(at time.Time) {
	if p.plan.WakeAt.IsZero() || at.Before(p.plan.WakeAt) {
		p.plan.WakeAt = at
	}
}

// run keeps a pod running that should.
func (p *planner) run() {
	sandbox := p.in.Observed.Sandbox()
	if sandbox == nil || sandbox.State != runtime.Running {
		p.replaceSandbox(sandbox)
		return
	}
	p.stopStrays(sandbox.ID)
	for i := range p.in.Pod.Spec.EphemeralContainers { // these are started once, whatever the others do
		if name := p.in.Pod.Spec.EphemeralContainers[i].Name; p.in.Observed.Container(name) == nil {
			p.start(name, 0)
		}
	}
	if !p.clear() && p.initialize(sandbox.ID) {
		for i := range p.in.Pod.Spec.Containers {
			p.keep(&p.in.Pod.Spec.Containers[i], sandbox.ID)
		}
	}
}

// replaceSandbox makes a sandbox where there is none, once containers of a dead one have ended.
func (p *planner) replaceSandbox(old *runtime.Sandbox) {
	waiting := false
	for i := range p.in.Observed.Containers {
		if c := &p.in.Observed.Containers[i]; c.State == runtime.Running {
			p.stopContainer(c, p.in.Now.Add(Grace(p.in.Pod)),
				"Pod sandbox changed, it will be killed and re-created.")
			waiting = true
		}
	}
	if waiting || p.in.Busy || p.delayed("") {
		return
	}
	attempt := 0
	if old != nil {
		attempt = old.Attempt + 1
	}
	p.add(Action{Kind: CreateSandbox, Attempt: attempt})
}

// stopStrays ends what runs in sandboxes that are no longer the pod's.
func (p *planner) stopStrays(sandboxID string) {
	for i := range p.in.Observed.Containers {
		c := &p.in.Observed.Containers[i]
		if c.State == runtime.Running && c.SandboxID != sandboxID {
			p.stopContainer(c, p.in.Now.Add(Grace(p.in.Pod)), "Container belongs to an earlier sandbox of the pod")
		}
	}
	for i := range p.in.Observed.Sandboxes {
		s := &p.in.Observed.Sandboxes[i]
		if s.State == runtime.Running && s.ID != sandboxID {
			p.stopSandbox(s.ID)
		}
	}
}

func (p *planner) delayed(name string) bool {
	at, ok := p.in.NotBefore[name]
	if !ok || !p.in.Now.Before(at) {
		return false
	}
	p.wake(at)
	return true
}

// initialize drives the init containers in order and reports whether the regular containers may run.
func (p *planner) initialize(sandboxID string) bool {
	spec := &p.in.Pod.Spec
	initialized := p.initialized(sandboxID)
	reached := p.lastInit(sandboxID)
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		run := p.in.current(c.Name, sandboxID)
		if IsSidecar(c) {
			p.keep(c, sandboxID)
			if !initialized && (run == nil || run.State != runtime.Running || !p.in.Started[run.ID]) {
				return false
			}
			continue
		}
		if initialized || i < reached || (run != nil && run.State == runtime.Exited && run.ExitCode == 0 &&
			run.StartErr == "") {
			continue // a pod initializes once per sandbox
		}
		p.keep(c, sandboxID)
		return false
	}
	return true
}

func (p *planner) initialized(sandboxID string) bool {
	for i := range p.in.Pod.Spec.Containers {
		if p.in.current(p.in.Pod.Spec.Containers[i].Name, sandboxID) != nil {
			return true
		}
	}
	return len(p.in.Pod.Spec.InitContainers) == 0
}

// lastInit is the index of the last init container that ran in the sandbox: those before it are done.
func (p *planner) lastInit(sandboxID string) int {
	list := p.in.Pod.Spec.InitContainers
	for i := len(list) - 1; i > 0; i-- {
		if p.in.current(list[i].Name, sandboxID) != nil {
			return i
		}
	}
	return 0
}

// current returns the newest run of a container in the sandbox, nil if it has not run since the pod or
// RestartAllContainers began.
func (in *Input) current(name, sandboxID string) *runtime.Container {
	if c := in.Observed.Container(name); c != nil && c.SandboxID == sandboxID && !in.past(c) {
		return c
	}
	return nil
}

// keep starts, restarts or condemns one container.
func (p *planner) keep(c *v1.Container, sandboxID string) {
	run := p.in.Observed.Container(c.Name)
	switch {
	case run == nil:
		p.start(c.Name, 0)
	case run.State == runtime.Created: // it never ran: it is created again, which is no restart
		p.start(c.Name, run.Attempt)
	case run.State == runtime.Running:
		p.checkRunning(c, run)
	case run.State == runtime.Exited && run.SandboxID == sandboxID && !p.in.past(run):
		if p.in.restarts(c, run) {
			p.restart(c.Name, run)
		}
	default: // of an earlier sandbox, or from before RestartAllContainers
		if IsInit(p.in.Pod, c.Name) || p.in.restarts(c, run) {
			p.start(c.Name, run.Attempt+1)
		}
	}
}

// checkRunning stops or resizes a running container whose spec changed, or stops it when a probe failed.
func (p *planner) checkRunning(c *v1.Container, run *runtime.Container) {
	deadline := p.in.Now.Add(Grace(p.in.Pod))
	if run.Hash != Hash(c) {
		p.stopContainer(run, deadline, "Container "+c.Name+" definition changed, will be restarted")
		return
	}
	if resizes, restart := Resizes(c, run, p.in.Resources); restart {
		p.stopContainer(run, deadline, "Container "+c.Name+" resize requires restart")
		p.plan.Renewed = append(p.plan.Renewed, run.ID)
		return
	} else if resizes {
		p.resize(c, run)
	}
	unhealthy, condemned := p.in.Unhealthy[run.ID]
	if !condemned {
		return
	}
	if unhealthy.Grace != nil {
		deadline = p.in.Now.Add(time.Duration(*unhealthy.Grace) * time.Second)
	}
	message := "Container " + c.Name + " failed " + unhealthy.Probe + " probe"
	if policyOf(p.in.Pod, c) != v1.RestartPolicyNever {
		message += ", will be restarted"
	}
	p.stopContainer(run, deadline, message)
}

func (p *planner) start(name string, attempt int) {
	if p.in.Busy || p.delayed(name) {
		return
	}
	p.add(Action{Kind: StartContainer, Name: name, Attempt: attempt})
}
