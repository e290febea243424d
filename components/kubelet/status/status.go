// Package status computes and writes pod statuses: Compute derives a PodStatus from observations, and Writer updates
// the API server. Compute is pure.
package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// Input is everything a status depends on.
type Input struct {
	Pod      *v1.Pod
	Observed *runtime.Pod
	Now      time.Time
	Runtime  string // its name, the scheme of container IDs

	// Previous is the status before: its start time, its addresses and the times of its conditions live on.
	Previous *v1.PodStatus
	// Waiting explains containers that do not run, by name. Those whose start is not complete are here too,
	// even if the engine calls them running.
	Waiting map[string]plan.Waiting
	// Starting holds the names of containers whose start (with its postStart hook) is under way.
	Starting map[string]bool
	// Started and Ready hold the IDs of containers that passed their startup and readiness probes.
	Started, Ready map[string]bool
	// Messages are termination messages, by ID of container.
	Messages map[string]string
	HostIPs  []string
	// RecursiveReadOnly tells that the engine can make the mounts below a read-only mount read-only, too.
	RecursiveReadOnly bool
	// StopSignals has the signal that stops a container told (KEP-4960).
	StopSignals bool
	// Unmounted tells that the pod's volumes are not there yet: no container can start, whatever the sandbox.
	Unmounted bool

	// RestartAll holds the runs that RestartAllContainers ended, by ID; Restarting tells that no container was started
	// since.
	RestartAll map[string]bool
	Restarting bool

	// Devices are the health of devices, by container.
	Devices map[string][]v1.ResourceStatus

	// Limits are those of the pod's control group; nil while they are not set.
	Limits *cgroups.Limits
	// Resizes are the conditions of a change of resources that waits or is under way.
	Resizes []v1.PodCondition

	// Reason and Message explain a pod that was stopped by the node (evicted, rejected, ran too long).
	Reason, Message string
	// Rejected tells that the pod never ran here, nor will.
	Rejected bool
	// Disrupted tells why the node ended the pod for others, "" if it did not.
	Disrupted string
	// Done tells that all containers ended for good: the phase becomes final.
	Done bool
}

// Compute derives the status.
func Compute(in *Input) v1.PodStatus {
	if in.Previous == nil {
		in.Previous = &v1.PodStatus{}
	}
	if final(in.Previous.Phase) && !in.Observed.AnyRunning() {
		s := *in.Previous.DeepCopy() // nothing about it changes any more
		s.ObservedGeneration = in.Pod.Generation
		return s
	}
	s := v1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		QOSClass:           in.Previous.QOSClass,
		StartTime:          in.Previous.StartTime,
		Reason:             in.Reason,
		Message:            in.Message,
		NominatedNodeName:  in.Previous.NominatedNodeName,
		PodIP:              in.Previous.PodIP,
		PodIPs:             in.Previous.PodIPs,

		ResourceClaimStatuses: in.Previous.ResourceClaimStatuses,

		ExtendedResourceClaimStatus:          in.Previous.ExtendedResourceClaimStatus,
		NodeAllocatableResourceClaimStatuses: in.Previous.NodeAllocatableResourceClaimStatuses,
	}
	if s.QOSClass == "" {
		s.QOSClass = QOS(in.Pod)
	}
	if s.StartTime == nil {
		now := metav1.NewTime(in.Now).Rfc3339Copy()
		s.StartTime = &now
	}
	if in.Rejected {
		s.Phase = v1.PodFailed
		s.Conditions = in.Previous.Conditions
		return s
	}
	setAddresses(in, &s)
	setContainers(in, &s)
	setResources(in, &s)
	s.Phase = phase(in, &s)
	if final(s.Phase) {
		endAll(&s)
	}
	s.Conditions = conditions(in, &s)
	return s
}

// setContainers adds the statuses of the containers.
func setContainers(in *Input, s *v1.PodStatus) {
	initialized := true
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		cs := in.container(c, "PodInitializing")
		cs.Ready = cs.Ready || (!plan.IsSidecar(c) && cs.State.Terminated != nil && cs.State.Terminated.ExitCode == 0)
		initialized = initialized && initDone(c, &cs)
		s.InitContainerStatuses = append(s.InitContainerStatuses, cs)
	}
	waiting := "ContainerCreating"
	if len(in.Pod.Spec.InitContainers) > 0 {
		waiting = "PodInitializing"
		if initialized {
			waiting = "ContainerCreating"
		}
	}
	for i := range in.Pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, in.container(&in.Pod.Spec.Containers[i], waiting))
	}
	for i := range in.Pod.Spec.EphemeralContainers {
		c := v1.Container(in.Pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, in.container(&c, "ContainerCreating"))
	}
}

func final(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

func setAddresses(in *Input, s *v1.PodStatus) {
	for i, ip := range in.HostIPs {
		if i == 0 {
			s.HostIP = ip
		}
		s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip})
	}
	sandbox := in.Observed.Sandbox()
	if sandbox == nil || sandbox.State != runtime.Running {
		return // keep what was known
	}
	ips := sandbox.IPs
	if in.Pod.Spec.HostNetwork {
		ips = in.HostIPs
	}
	if len(ips) == 0 {
		return
	}
	s.PodIP, s.PodIPs = ips[0], nil
	for _, ip := range ips {
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip})
	}
}

// initDone tells whether what comes after an init container may start.
func initDone(c *v1.Container, cs *v1.ContainerStatus) bool {
	if plan.IsSidecar(c) {
		return cs.Started != nil && *cs.Started
	}
	return cs.State.Terminated != nil && cs.State.Terminated.ExitCode == 0
}

// phase sums the containers up (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase).
func phase(in *Input, s *v1.PodStatus) v1.PodPhase {
	switch {
	case final(in.Previous.Phase):
		return in.Previous.Phase
	case in.Done && in.Reason != "":
		return v1.PodFailed
	case in.Done:
		return finalPhase(in, s)
	}
	for i := range in.Pod.Spec.InitContainers {
		if !initDone(&in.Pod.Spec.InitContainers[i], &s.InitContainerStatuses[i]) && !anyRan(s.ContainerStatuses) {
			return v1.PodPending
		}
	}
	for i := range s.ContainerStatuses {
		cs := &s.ContainerStatuses[i]
		if cs.State.Waiting != nil && cs.LastTerminationState.Terminated == nil {
			return v1.PodPending
		}
	}
	return v1.PodRunning
}

func anyRan(statuses []v1.ContainerStatus) bool {
	for i := range statuses {
		cs := &statuses[i]
		if cs.State.Waiting == nil || cs.LastTerminationState.Terminated != nil {
			return true
		}
	}
	return false
}

func finalPhase(in *Input, s *v1.PodStatus) v1.PodPhase {
	for i := range s.InitContainerStatuses {
		cs := &s.InitContainerStatuses[i]
		if !plan.IsSidecar(&in.Pod.Spec.InitContainers[i]) && !succeeded(cs) && !anyRan(s.ContainerStatuses) {
			return v1.PodFailed
		}
	}
	for i := range s.ContainerStatuses {
		if !succeeded(&s.ContainerStatuses[i]) {
			return v1.PodFailed
		}
	}
	return v1.PodSucceeded
}

func succeeded(cs *v1.ContainerStatus) bool {
	return cs.State.Terminated != nil && cs.State.Terminated.ExitCode == 0
}

// endAll gives containers of an ended pod a final state: consumers wait for "terminated".
func endAll(s *v1.PodStatus) {
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			cs := &list[i]
			cs.Ready = cs.Ready && cs.State.Terminated != nil
			no := false
			cs.Started = &no
			if cs.State.Terminated != nil {
				continue
			}
			if cs.LastTerminationState.Terminated != nil && cs.State.Waiting != nil {
				cs.State, cs.LastTerminationState = cs.LastTerminationState, v1.ContainerState{}
				continue
			}
			if s.Phase == v1.PodSucceeded || cs.State.Waiting == nil || cs.ContainerID != "" {
				cs.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
					Reason: "ContainerStatusUnknown", ExitCode: 137,
					Message: "The container could not be found when the pod ended",
				}}
			}
		}
	}
}
