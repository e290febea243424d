package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// containers explains what keeps a pod's containers from running and being ready.
func (s *Snapshot) containers(p *corev1.Pod) []Cause {
	var causes []Cause
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		status := statusOf(p.Status.InitContainerStatuses, c.Name)
		sidecar := ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
		switch {
		case status == nil:
		case sidecar && (ptr.Deref(status.Started, false) || status.State.Terminated != nil):
		case status.State.Terminated != nil && status.State.Terminated.ExitCode == 0:
			continue
		case !sidecar && status.State.Running != nil:
			return append(causes, Cause{Reason: "Initializing",
				Message: fmt.Sprintf("Init container %s still runs; those after it wait.", c.Name)})
		}
		if found := s.container(p, c, status, !sidecar); found != nil {
			causes = append(causes, *found)
			if status == nil || status.State.Running == nil {
				return causes // those that follow wait for it
			}
		}
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if found := s.container(p, c, statusOf(p.Status.ContainerStatuses, c.Name), false); found != nil {
			causes = append(causes, *found)
		}
	}
	return unite(causes)
}

// container explains one container; nil is one that is as it should be.
func (s *Snapshot) container(p *corev1.Pod, c *corev1.Container, status *corev1.ContainerStatus, ends bool) *Cause {
	if status == nil {
		return &Cause{Reason: "NotReported", Message: fmt.Sprintf("The kubelet of %s has not yet taken it.",
			p.Spec.NodeName), Help: "If that lasts, see whether the node's kubelet runs."}
	}
	switch state := status.State; {
	case state.Waiting != nil:
		return s.waiting(p, c, status)
	case state.Terminated != nil:
		if ends || state.Terminated.ExitCode == 0 && p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			if state.Terminated.ExitCode == 0 {
				return nil
			}
		}
		return ptr.To(ended(c.Name, state.Terminated))
	case !ptr.Deref(status.Started, true):
		return s.probe(p, c.Name, "Startup", "StartupProbe", "has not yet started by its startup probe")
	case !status.Ready && !ends:
		return s.probe(p, c.Name, "Readiness", "ReadinessProbe", "runs, and is not ready by its readiness probe")
	}
	return nil
}

// imageReasons are the kubelet's words for images that it can't get.
var imageReasons = []string{"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
	"ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}

func (s *Snapshot) waiting(p *corev1.Pod, c *corev1.Container, status *corev1.ContainerStatus) *Cause {
	w := status.State.Waiting
	cause := &Cause{Reason: or(w.Reason, "Waiting"), Message: fmt.Sprintf("Container %s waits", c.Name)}
	if w.Message != "" {
		cause.Message += ": " + w.Message
	} else {
		cause.Message += "."
	}
	switch {
	case slices.Contains(imageReasons, w.Reason):
		cause.Message = fmt.Sprintf("Container %s has no image %s: %s", c.Name, c.Image, w.Message)
		if w.Reason == "ErrImageNeverPull" {
			cause.Help = "Load the image onto the node, or change imagePullPolicy: Never."
		} else {
			cause.Help = "See whether the image exists, the node reaches the registry, and an imagePullSecret is needed."
		}
	case w.Reason == "CrashLoopBackOff":
		cause.Message = fmt.Sprintf("Container %s ended %d times; its next start waits.", c.Name, status.RestartCount)
		if t := status.LastTerminationState.Terminated; t != nil {
			cause.Causes = []Cause{ended(c.Name, t)}
		}
		if e := s.lastEvent(p.UID, "Unhealthy"); e != nil && strings.HasPrefix(e.Message, "Liveness probe") {
			cause.Causes = append(cause.Causes, Cause{Reason: "LivenessProbe", Message: e.Message,
				Help: "The kubelet restarts a container whose liveness probe fails: correct the program or the probe."})
		}
	case w.Reason == "CreateContainerConfigError":
		cause.Help = "Create the ConfigMap, Secret or key that it names, or mark the reference optional."
	case w.Reason == "ContainerCreating" || w.Reason == "PodInitializing":
		e := s.lastEvent(p.UID, "FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox",
			"NetworkNotReady", "FailedPrepareDynamicResources")
		if e == nil {
			break
		}
		cause.Reason, cause.Message = e.Reason, e.Message
		if e.Reason == "FailedMount" {
			cause.Help = "Create what the volume refers to, or see whether its driver runs on the node."
		}
	}
	return cause
}

// ended explains how a container ended.
func ended(name string, t *corev1.ContainerStateTerminated) Cause {
	c := Cause{Reason: or(t.Reason, "Error"), Message: fmt.Sprintf("Container %s ended with exit code %d", name,
		t.ExitCode)}
	switch {
	case t.Reason == "OOMKilled":
		c.Message = fmt.Sprintf("Container %s used more memory than its limit and was killed", name)
		c.Help = "Raise its memory limit, or let the program use less."
	case t.Reason == "ContainerCannotRun" || t.Reason == "StartError":
		c.Message = fmt.Sprintf("Container %s could not be started", name)
		c.Help = "See whether its command exists in the image."
	case t.ExitCode > 128 && t.ExitCode < 160:
		c.Message += fmt.Sprintf(" (signal %d)", t.ExitCode-128)
	default:
		c.Help = fmt.Sprintf("Its log says more: kubectl logs --previous --container %s.", name)
	}
	if t.Message != "" {
		c.Message += ": " + strings.TrimSpace(t.Message)
	} else {
		c.Message += "."
	}
	return c
}

// probe explains a container that a probe of the kubelet holds back.
func (s *Snapshot) probe(p *corev1.Pod, name, kind, reason, state string) *Cause {
	c := &Cause{Reason: reason, Message: fmt.Sprintf("Container %s %s.", name, state)}
	if e := s.lastEvent(p.UID, "Unhealthy"); e != nil && strings.HasPrefix(e.Message, kind) {
		c.Message = fmt.Sprintf("Container %s %s: %s", name, state, e.Message)
	}
	return c
}

func statusOf(all []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// unite counts equal causes as one.
func unite(causes []Cause) []Cause {
	var out []Cause
	for _, c := range causes {
		i := slices.IndexFunc(out, func(o Cause) bool { return o.Reason == c.Reason && o.Message == c.Message })
		if i < 0 {
			out = append(out, c)
			continue
		}
		if c.Object != nil && out[i].Object != nil {
			out[i].Count = max(out[i].Count, 1) + 1
		}
	}
	return out
}
