package pods

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/probes"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/status"
)

// report computes the status and hands it to the writer, which sends it by and by.
func (w *worker) report(pod *v1.Pod, probed *probes.State, decision *plan.Plan, now time.Time) {
	s := &w.state
	in := &status.Input{
		Pod: pod, Observed: &s.observed, Now: now, Runtime: w.RuntimeName, Previous: s.previousStatus(),
		Waiting: w.waiting(pod, decision), Starting: s.starting, Started: probed.Started, Ready: probed.Ready,
		Messages: s.messages, HostIPs: w.HostIPs, Done: decision.Done,
		RecursiveReadOnly: w.Builder.RecursiveReadOnly, StopSignals: w.Builder.StopSignals,
		Unmounted: w.Volumes != nil && s.waitsForVolumes(),
		Resizes:   s.resize.conditions(), RestartAll: decision.RestartAll, Restarting: decision.Pending,
	}
	in.Devices = w.deviceHealth(pod)
	if sandbox := s.observed.Sandbox(); sandbox != nil && sandbox.ID == s.resize.sandbox {
		in.Limits = &s.resize.limits
	}
	if s.rejected != nil {
		if s.rejected.disrupted {
			in.Disrupted = cmp.Or(s.rejected.condition, s.rejected.message)
		}
		in.Reason, in.Message, in.Rejected = s.rejected.reason, s.rejected.statusMessage(), s.rejected.never
	}
	computed := status.Compute(in)
	if computed.Phase == v1.PodRunning && in.Previous.Phase != v1.PodRunning {
		w.m.Metrics.Running(pod, w.seen, now)
	}
	s.freed = s.freed || ended(computed.Phase) && (s.status == nil || !ended(s.status.Phase))
	s.status = &computed
	if status.Same(&s.pod.Status, &computed) {
		s.status = &s.pod.Status // one in memory instead of two
	}
	if !s.gone {
		w.Status.Set(s.pod, s.status)
	}
}

// deviceHealth is the health of the devices of plug-ins and claims, by container.
func (w *worker) deviceHealth(pod *v1.Pod) map[string][]v1.ResourceStatus {
	var health map[string][]v1.ResourceStatus
	if w.Devices != nil {
		health = w.Devices.Health(w.uid)
	}
	if w.Claims == nil || len(pod.Spec.ResourceClaims) == 0 {
		return health
	}
	claimed := w.Claims.Health(pod)
	for container, statuses := range health {
		claimed[container] = append(statuses, claimed[container]...)
	}
	return claimed
}

// waiting returns why containers do not run, by name. It records back-offs as events.
func (w *worker) waiting(pod *v1.Pod, decision *plan.Plan) map[string]plan.Waiting {
	s, waiting := &w.state, map[string]plan.Waiting{}
	for name, why := range s.failures {
		if run := s.observed.Container(name); run != nil && run.State == runtime.Running && !s.busy {
			delete(s.failures, name) // it was started after all: the engine's answer was lost
		} else if !decision.Ended[name] {
			waiting[name] = why
		}
	}
	for name, why := range decision.Waiting {
		waiting[name] = why
		if s.failures[name] == why {
			continue
		}
		s.failures[name] = why
		if c := containerOf(pod, name); c != nil {
			w.recordContainer(pod, c, v1.EventTypeWarning, "BackOff", "Back-off restarting failed container "+name+
				" in pod "+pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")")
		}
	}
	return waiting
}

// waitsForVolumes tells that no container was started yet because volumes are not there. Volumes of a pod that runs may
// fail to be refreshed, which takes nothing from it.
func (s *state) waitsForVolumes() bool {
	return len(s.observed.Containers) == 0 && (s.volumes == nil || s.unmounted)
}

// previousStatus is the status that the new one continues: the API server's, with what it does not have yet.
func (s *state) previousStatus() *v1.PodStatus {
	if s.status == nil {
		return &s.pod.Status
	}
	previous := s.status.DeepCopy()
	for _, c := range s.pod.Status.Conditions {
		if !status.Owns(c.Type) {
			previous.Conditions = status.Replace(previous.Conditions, c)
		}
	}
	return previous
}
