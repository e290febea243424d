package plan

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// CanBeginAnew tells pods that have a container whose end may ask for all of them to be started anew (KEP-5532).
func CanBeginAnew(pod *v1.Pod) bool {
	return slices.ContainsFunc(Containers(pod), func(c *v1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// trigger is the last run whose end asked for all containers to be started anew, nil if none did.
func (in *Input) trigger() *runtime.Container {
	var last *runtime.Container
	for _, c := range Containers(in.Pod) {
		if len(c.RestartPolicyRules) == 0 {
			continue
		}
		for i := range in.Observed.Containers {
			run := &in.Observed.Containers[i]
			if run.Name == c.Name && run.State == runtime.Exited && ruleFor(c, run) == v1.ContainerRestartRuleActionRestartAllContainers &&
				(last == nil || run.Finished.After(last.Finished)) {
				last = run
			}
		}
	}
	return last
}

// beginning is the first run since trigger of the container that is started first, nil if there is none: what others were
// started as the trigger ended, which a start under way may do, is older.
func (in *Input) beginning(trigger *runtime.Container) *runtime.Container {
	if trigger == nil {
		return nil
	}
	first := Containers(in.Pod)[0].Name
	var earliest *runtime.Container
	for i := range in.Observed.Containers {
		run := &in.Observed.Containers[i]
		if run.Name != first || run.Created.Before(trigger.Finished) || first == trigger.Name && run.Attempt <= trigger.Attempt {
			continue
		}
		if earliest == nil || run.Attempt < earliest.Attempt {
			earliest = run
		}
	}
	return earliest
}

// past tells a run of before all containers were started anew: it counts no more than one of an earlier sandbox.
func (in *Input) past(run *runtime.Container) bool {
	trigger := in.trigger()
	if trigger == nil || run.ID == trigger.ID {
		return trigger != nil
	}
	beginning := in.beginning(trigger)
	return beginning == nil || run.Created.Before(beginning.Created)
}

// clear ends all containers that are to be started anew, and tells whether some still run: the first is started when the
// last has ended.
func (p *planner) clear() bool {
	waiting := false
	for _, c := range Containers(p.in.Pod) {
		run := p.in.Observed.Container(c.Name)
		if run == nil || run.State != runtime.Running || !p.in.past(run) {
			continue
		}
		waiting = true
		p.stopContainer(run, p.in.Now, "killing")
	}
	return waiting
}

// anew names the runs that ended for all containers to be started anew, by ID, and tells whether none was started since.
func anew(in *Input) (past map[string]bool, pending bool) {
	trigger := in.trigger()
	if trigger == nil {
		return nil, false
	}
	past = map[string]bool{}
	for i := range in.Observed.Containers {
		run := &in.Observed.Containers[i]
		past[run.ID] = run.State == runtime.Exited && in.past(run)
	}
	return past, in.beginning(trigger) == nil
}

// ruleFor is what the first rule says that is about the end of a run, "" if none is.
func ruleFor(c *v1.Container, run *runtime.Container) v1.ContainerRestartRuleAction {
	for i := range c.RestartPolicyRules {
		if matches(c.RestartPolicyRules[i].ExitCodes, int32(run.ExitCode)) {
			return c.RestartPolicyRules[i].Action
		}
	}
	return ""
}
