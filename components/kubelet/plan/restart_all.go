package plan

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// CanRestartAll tells whether a container of the pod has a RestartAllContainers rule (KEP-5532).
func CanRestartAll(pod *v1.Pod) bool {
	return slices.ContainsFunc(Containers(pod), func(c *v1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// trigger returns the last run whose exit matched a RestartAllContainers rule, nil if there is none.
func (in *Input) trigger() *runtime.Container {
	var last *runtime.Container
	for _, c := range Containers(in.Pod) {
		if len(c.RestartPolicyRules) == 0 {
			continue
		}
		for i := range in.Observed.Containers {
			run := &in.Observed.Containers[i]
			if run.Name == c.Name && run.State == runtime.Exited &&
				ruleFor(c, run) == v1.ContainerRestartRuleActionRestartAllContainers &&
				(last == nil || run.Finished.After(last.Finished)) {
				last = run
			}
		}
	}
	return last
}

// beginning returns the first run since trigger of the container that is started first, nil if there is none. Runs of
// other containers that were being started when the trigger exited are older.
func (in *Input) beginning(trigger *runtime.Container) *runtime.Container {
	if trigger == nil {
		return nil
	}
	first := Containers(in.Pod)[0].Name
	var earliest *runtime.Container
	for i := range in.Observed.Containers {
		run := &in.Observed.Containers[i]
		if run.Name != first || run.Created.Before(trigger.Finished) || first == trigger.Name &&
			run.Attempt <= trigger.Attempt {
			continue
		}
		if earliest == nil || run.Attempt < earliest.Attempt {
			earliest = run
		}
	}
	return earliest
}

// past tells whether run precedes the last RestartAllContainers: like a run of an earlier sandbox, it no longer counts.
func (in *Input) past(run *runtime.Container) bool {
	trigger := in.trigger()
	if trigger == nil || run.ID == trigger.ID {
		return trigger != nil
	}
	beginning := in.beginning(trigger)
	return beginning == nil || run.Created.Before(beginning.Created)
}

// clear stops the containers that RestartAllContainers restarts and reports whether some still run: the first one is
// started once all have exited.
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

// restartAll returns the runs that RestartAllContainers ended, by ID, and whether no container was started since.
func restartAll(in *Input) (past map[string]bool, pending bool) {
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

// ruleFor returns the action of the first restart rule that matches the exit code of run, "" if none does.
func ruleFor(c *v1.Container, run *runtime.Container) v1.ContainerRestartRuleAction {
	for i := range c.RestartPolicyRules {
		if matches(c.RestartPolicyRules[i].ExitCodes, int32(run.ExitCode)) {
			return c.RestartPolicyRules[i].Action
		}
	}
	return ""
}
