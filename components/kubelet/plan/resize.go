package plan

import (
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Resizes tells whether a container is to get other resources than a run of it has, and whether that takes a new run:
// its resizePolicy says so (KEP-1287).
func Resizes(c *v1.Container, run *runtime.Container, wanted map[string]runtime.Resources) (resizes, restart bool) {
	want, known := wanted[c.Name]
	if !known {
		return false, false
	}
	has := run.Resources
	cpu := has.CPUShares != want.CPUShares || quota(has) != quota(want)
	memory := has.MemoryBytes != want.MemoryBytes
	request := c.Resources.Requests[v1.ResourceMemory]
	if restartsFor(c, v1.ResourceMemory) && (memory || run.MemoryRequest != request.Value()) {
		return true, true
	}
	return cpu || memory, cpu && restartsFor(c, v1.ResourceCPU)
}

// quota is how much CPU there is at most, however it is written; 0 is no bound.
func quota(r runtime.Resources) float64 {
	if r.CPUPeriod == 0 {
		return 0
	}
	return float64(r.CPUQuota) / float64(r.CPUPeriod)
}

func restartsFor(c *v1.Container, name v1.ResourceName) bool {
	for _, p := range c.ResizePolicy {
		if p.ResourceName == name {
			return p.RestartPolicy == v1.RestartContainer
		}
	}
	return false
}

// resize gives a running container what it is to have, unless that is under way.
func (p *planner) resize(c *v1.Container, run *runtime.Container) {
	if at, busy := p.in.Resizing[run.ID]; busy {
		if at.IsZero() {
			return
		}
		if p.in.Now.Before(at) {
			p.wake(at)
			return
		}
	}
	p.add(Action{Kind: ResizeContainer, Name: c.Name, ID: run.ID, Resources: p.in.Resources[c.Name]})
}
