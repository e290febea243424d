package cri

import (
	"fmt"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// reasonOOM is what engines give for a container that was killed for want of memory.
const reasonOOM = "OOMKilled"

// translate reads what the engine tells of a container.
func translate(in *cri.ContainerStatus, sandbox string) runtime.Container {
	notes := in.GetAnnotations()
	limits := in.GetResources().GetLinux()
	c := runtime.Container{
		ID: in.GetId(), Name: in.GetMetadata().GetName(), SandboxID: sandbox, Attempt: int(in.GetMetadata().GetAttempt()),
		Image: notes[noteImage], ImageID: imageID(in), ImageRef: in.GetImageRef(),
		Hash: notes[noteHash], MessageFile: notes[noteMessageFile],
		User: userOf(in.GetUser().GetLinux()), Created: at(in.GetCreatedAt()), Started: at(in.GetStartedAt()),
		MemoryRequest: number(notes[noteMemoryRequest]),
		Resources: runtime.Resources{CPUShares: limits.GetCpuShares(), CPUQuota: limits.GetCpuQuota(),
			CPUPeriod: limits.GetCpuPeriod(), MemoryBytes: limits.GetMemoryLimitInBytes()},
	}
	switch in.GetState() {
	case cri.ContainerState_CONTAINER_CREATED:
		c.State = runtime.Created
		return c
	case cri.ContainerState_CONTAINER_RUNNING:
		c.State = runtime.Running
		return c
	}
	c.State, c.Finished, c.ExitCode = runtime.Exited, at(in.GetFinishedAt()), int(in.GetExitCode())
	c.OOMKilled = in.GetReason() == reasonOOM
	if c.Finished.Before(c.Started) {
		c.Finished = c.Started
	}
	if c.Started.IsZero() {
		c.StartErr = startError(in)
	}
	return c
}

// startError is why a container ended without having been started.
func startError(in *cri.ContainerStatus) string {
	if in.GetMessage() != "" {
		return in.GetMessage()
	}
	return fmt.Sprintf("the container ended before it was started: %s", in.GetReason())
}

// at is a time in nanoseconds; 0 is never, and so is the epoch that some engines name for a container that was not
// started.
func at(nanoseconds int64) time.Time {
	if nanoseconds <= 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// imageID is the ID that the image has in the engine's store.
func imageID(in *cri.ContainerStatus) string {
	if id := in.GetImageId(); id != "" {
		return id
	}
	return in.GetImageRef()
}

// userOf is "uid:gid,..." of the first process.
func userOf(user *cri.LinuxContainerUser) string {
	if user == nil {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d:%d", user.GetUid(), user.GetGid())
	for _, group := range user.GetSupplementalGroups() {
		fmt.Fprintf(&text, ",%d", group)
	}
	return text.String()
}
