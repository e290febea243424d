package plan

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Limits of a back-off: it starts with Initial and doubles up to Max; a container that ran for twice Max
// starts over (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy).
type Limits struct{ Initial, Max time.Duration }

// Backoff is the delay before the next restart, and when it was last used.
type Backoff struct {
	Delay time.Duration
	Used  time.Time
}

// Remaining is how long after event, at now, the back-off still lasts.
func (b Backoff) Remaining(event, now time.Time, limits Limits) time.Duration {
	if b.Delay == 0 || event.Sub(b.Used) > 2*limits.Max {
		return 0
	}
	return max(0, b.Delay-now.Sub(event))
}

// Next is the back-off after one more use at now because of event.
func (b Backoff) Next(event, now time.Time, limits Limits) Backoff {
	delay := 2 * b.Delay
	if b.Delay == 0 || event.Sub(b.Used) > 2*limits.Max {
		delay = limits.Initial
	}
	return Backoff{Delay: min(delay, limits.Max), Used: now}
}

// restart starts a container that ended, unless its back-off lasts.
func (p *planner) restart(name string, run *runtime.Container) {
	if p.in.Renewed[run.ID] {
		p.start(name, run.Attempt+1) // nothing went wrong with it
		return
	}
	backoff := p.in.Backoff[name]
	if left := backoff.Remaining(run.Finished, p.in.Now, p.in.Limits); left > 0 {
		p.wake(p.in.Now.Add(left))
		p.plan.Waiting[name] = Waiting{Reason: "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
				backoff.Delay, name, p.in.Pod.Name, p.in.Pod.Namespace, p.in.Pod.UID)}
		return
	}
	before := len(p.plan.Actions)
	p.start(name, run.Attempt+1)
	if len(p.plan.Actions) > before {
		p.plan.Backoff[name] = backoff.Next(run.Finished, p.in.Now, p.in.Limits)
	}
}

// Hash identifies what of a container's specification can change in a running pod: its image.
func Hash(c *v1.Container) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.Name + "\x00" + c.Image))
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// IsSidecar tells a restartable init container (KEP-753).
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// IsInit tells whether name is an init container of the pod, sidecars included.
func IsInit(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == name })
}

// policyOf is a container's own restart policy or its pod's (KEP-5307).
func policyOf(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways && IsInit(pod, c.Name) {
		return v1.RestartPolicyOnFailure
	}
	return pod.Spec.RestartPolicy
}

// restarts tells whether a container that ended is started again.
func (in *Input) restarts(c *v1.Container, run *runtime.Container) bool {
	pod := in.Pod
	if run.Hash != Hash(c) || in.Renewed[run.ID] || ruleFor(c, run) != "" || in.past(run) {
		return true
	}
	switch policyOf(pod, c) {
	case v1.RestartPolicyAlways:
		return true
	case v1.RestartPolicyOnFailure:
		return run.ExitCode != 0 || run.StartErr != ""
	default:
		return false
	}
}

func matches(codes *v1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if codes == nil {
		return false
	}
	listed := slices.Contains(codes.Values, code)
	return listed == (codes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn)
}

// finished tells whether a pod ended by itself: every container ended for good, or an init container failed for
// good. Sidecars do not count.
func finished(in *Input) bool {
	pod, observed := in.Pod, in.Observed
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		run := observed.Container(c.Name)
		failed := run != nil && run.State == runtime.Exited && (run.ExitCode != 0 || run.StartErr != "")
		if failed && !IsSidecar(c) && !in.restarts(c, run) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		run := observed.Container(c.Name)
		if run == nil || run.State != runtime.Exited || in.restarts(c, run) {
			return false
		}
	}
	return true
}

// ended names the containers whose newest run ended and is not followed by another: none is if all of them are over.
func ended(in *Input, over bool) map[string]bool {
	names := map[string]bool{}
	for _, c := range Containers(in.Pod) {
		if run := in.Observed.Container(c.Name); run != nil && run.State == runtime.Exited &&
			(over || !in.restarts(c, run)) {
			names[c.Name] = true
		}
	}
	for i := range in.Pod.Spec.EphemeralContainers { // these are never restarted
		name := in.Pod.Spec.EphemeralContainers[i].Name
		if run := in.Observed.Container(name); run != nil && run.State == runtime.Exited {
			names[name] = true
		}
	}
	return names
}

func lastFinish(observed *runtime.Pod) time.Time {
	var last time.Time
	for i := range observed.Containers {
		if c := &observed.Containers[i]; c.State == runtime.Exited && c.Finished.After(last) {
			last = c.Finished
		}
	}
	return last
}

// Grace is how long the pod has to end when it is stopped.
func Grace(pod *v1.Pod) time.Duration {
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		return v1.DefaultTerminationGracePeriodSeconds * time.Second
	}
	return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
}
