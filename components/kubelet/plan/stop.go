package plan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// stop ends a pod: its regular and init containers first, then its sidecars in reverse order, then the sandbox.
func (p *planner) stop(stop Stop) {
	deadline := stop.Since.Add(stop.Grace)
	sidecars := map[string]bool{}
	for i := range p.in.Pod.Spec.InitContainers {
		if c := &p.in.Pod.Spec.InitContainers[i]; IsSidecar(c) {
			sidecars[c.Name] = true
		}
	}
	running := false
	for i := range p.in.Observed.Containers {
		c := &p.in.Observed.Containers[i]
		if c.State == runtime.Running && !sidecars[c.Name] {
			running = true
			p.stopContainer(c, deadline, "Stopping container "+c.Name)
		}
	}
	late := !p.in.Now.Before(deadline)
	for i := len(p.in.Pod.Spec.InitContainers) - 1; i >= 0; i-- {
		c := p.in.Observed.Container(p.in.Pod.Spec.InitContainers[i].Name)
		if c == nil || !sidecars[c.Name] || c.State != runtime.Running {
			continue
		}
		if !running || late {
			p.stopContainer(c, deadline, "Stopping container "+c.Name)
		}
		running = true
	}
	if running {
		if !late {
			p.wake(deadline) // then sidecars that still wait for others are ended too
		}
		return
	}
	if p.in.Busy {
		return
	}
	done := true
	for i := range p.in.Observed.Sandboxes {
		if s := &p.in.Observed.Sandboxes[i]; s.State == runtime.Running {
			p.stopSandbox(s.ID)
			done = false
		}
	}
	p.plan.Done = done
}

// stopContainer stops c by deadline, unless a stop that ends no later is under way.
func (p *planner) stopContainer(c *runtime.Container, deadline time.Time, message string) {
	if under, ok := p.in.Stopping[c.ID]; ok && !deadline.Before(under.Add(-time.Second)) {
		return
	}
	p.add(Action{Kind: StopContainer, Name: c.Name, ID: c.ID, Grace: max(0, deadline.Sub(p.in.Now)), Message: message})
}

func (p *planner) stopSandbox(id string) {
	if _, ok := p.in.Stopping[id]; !ok {
		p.add(Action{Kind: StopSandbox, ID: id})
	}
}

// collect removes runs that are no longer needed: the two newest runs of each container are kept, and the newest
// sandbox.
func (p *planner) collect() {
	kept := map[string]int{}
	trigger := p.in.trigger()
	beginning := p.in.beginning(trigger) // these two tell which runs precede RestartAllContainers
	for i := range p.in.Observed.Containers {
		c := &p.in.Observed.Containers[i]
		if kept[c.Name]++; kept[c.Name] > 2 && c.State != runtime.Running && c != trigger && c != beginning {
			p.remove(c.ID)
		}
	}
	for i := range p.in.Observed.Sandboxes {
		if s := &p.in.Observed.Sandboxes[i]; i > 0 && s.State != runtime.Running {
			p.remove(s.ID)
		}
	}
}

func (p *planner) remove(id string) {
	if _, ok := p.in.Stopping[id]; !ok {
		p.add(Action{Kind: Remove, ID: id})
	}
}

// Containers lists the init containers and containers of a pod, in this order.
func Containers(pod *v1.Pod) []*v1.Container {
	all := make([]*v1.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}
