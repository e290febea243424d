package status

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// container derives the status of one container; waiting is the reason if nothing better is known.
func (in *Input) container(c *v1.Container, waiting string) v1.ContainerStatus {
	cs := v1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(bool)}
	in.resources(c, &cs)
	cs.AllocatedResourcesStatus = in.Devices[c.Name]
	run, previous := in.Observed.Container(c.Name), in.Observed.Previous(c.Name)
	if run != nil && run.State == runtime.Created && previous != nil {
		run, previous = previous, nil // the new one is not there yet
	}
	why, explained := in.Waiting[c.Name]
	if run != nil && run.State != runtime.Created {
		in.identify(run, &cs)
		cs.RestartCount = int32(run.Attempt)
		if previous != nil && previous.State == runtime.Exited {
			cs.LastTerminationState = in.terminated(previous)
		}
	}
	switch {
	case run == nil || run.State == runtime.Created:
		in.inherit(&cs)
		cs.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: waiting}}
	case run.State == runtime.Exited:
		cs.State = in.terminated(run)
	case in.Starting[c.Name]:
		cs.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: waiting}}
	default:
		cs.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(run.Started).Rfc3339Copy()}}
		actual(run.Resources, cs.Resources)
		*cs.Started = in.Started[run.ID]
		cs.Ready = *cs.Started && in.Ready[run.ID]
	}
	if run != nil && in.RestartAll[run.ID] && !in.Done {
		cs.RestartCount++
		cs.LastTerminationState = cs.State
		cs.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: waiting}}
		if in.Restarting {
			cs.State.Waiting.Reason, cs.State.Waiting.Message = restartAllReason, restartAllMessage
		}
	}
	if explained && cs.State.Running == nil {
		if cs.State.Terminated != nil {
			cs.LastTerminationState = cs.State
		}
		cs.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: why.Reason, Message: why.Message}}
	}
	return cs
}

func (in *Input) identify(run *runtime.Container, cs *v1.ContainerStatus) {
	cs.ContainerID = in.Runtime + "://" + run.ID
	if run.ImageID != "" {
		cs.ImageID = cmp.Or(run.ImageRef, in.Runtime+"://"+run.ImageID)
	}
	if run.Image != "" {
		cs.Image = run.Image
	}
	if in.StopSignals && run.StopSignal != "" {
		cs.StopSignal = new(v1.Signal(run.StopSignal))
	}
}

// inherit keeps the count of restarts of a container whose earlier runs are gone.
func (in *Input) inherit(cs *v1.ContainerStatus) {
	for _, list := range [][]v1.ContainerStatus{in.Previous.ContainerStatuses, in.Previous.InitContainerStatuses} {
		i := slices.IndexFunc(list, func(old v1.ContainerStatus) bool { return old.Name == cs.Name })
		if i >= 0 {
			cs.RestartCount = list[i].RestartCount
		}
	}
}

// restartAllReason is the reason of containers that RestartAllContainers ended, terminated or waiting.
const (
	restartAllReason  = "RestartingAllContainers"
	restartAllMessage = "The container is removed because RestartAllContainers in place"
)

func (in *Input) terminated(run *runtime.Container) v1.ContainerState {
	if in.RestartAll[run.ID] {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: restartAllReason,
			Message: restartAllMessage, ExitCode: 137}}
	}
	t := &v1.ContainerStateTerminated{
		ExitCode:    int32(run.ExitCode),
		Reason:      reason(run),
		Message:     in.Messages[run.ID],
		StartedAt:   metav1.NewTime(run.Started).Rfc3339Copy(),
		FinishedAt:  metav1.NewTime(run.Finished).Rfc3339Copy(),
		ContainerID: in.Runtime + "://" + run.ID,
	}
	if run.StartErr != "" {
		t.Message = run.StartErr
	}
	return v1.ContainerState{Terminated: t}
}

func reason(run *runtime.Container) string {
	switch {
	case run.StartErr != "":
		return "StartError"
	case run.OOMKilled:
		return "OOMKilled"
	case run.ExitCode == 0:
		return "Completed"
	default:
		return "Error"
	}
}

// resources reports what the container was given (KEP-1287) and how its volumes are mounted (KEP-3857).
func (in *Input) resources(c *v1.Container, cs *v1.ContainerStatus) {
	if len(c.Resources.Requests) > 0 {
		cs.AllocatedResources = c.Resources.Requests.DeepCopy()
	}
	if len(c.Resources.Requests) > 0 || len(c.Resources.Limits) > 0 {
		cs.Resources = &v1.ResourceRequirements{Requests: c.Resources.Requests.DeepCopy(),
			Limits: c.Resources.Limits.DeepCopy()}
	} else {
		cs.Resources = &v1.ResourceRequirements{}
	}
	for _, m := range c.VolumeMounts {
		ms := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := v1.RecursiveReadOnlyDisabled
			if asked := m.RecursiveReadOnly; asked != nil && (*asked == v1.RecursiveReadOnlyEnabled ||
				*asked == v1.RecursiveReadOnlyIfPossible && in.RecursiveReadOnly) {
				mode = v1.RecursiveReadOnlyEnabled
			}
			ms.RecursiveReadOnly = &mode
		}
		cs.VolumeMounts = append(cs.VolumeMounts, ms)
	}
}
