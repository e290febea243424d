package pods

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// prepared is a container that was created and reported while its sandbox started.
type prepared struct{ id, sandbox string }

// prepare makes the containers that start first while their sandbox starts, which takes longer than all the rest.
// A container that can't be prepared is created, and its failure reported, when it is due.
func (s *starter) prepare(ctx context.Context, sandboxID string) {
	first := s.pod.Spec.Containers
	if len(s.pod.Spec.InitContainers) > 0 {
		first = s.pod.Spec.InitContainers[:1]
	}
	for i := range first {
		c := &first[i]
		if images.Policy(c) == v1.PullAlways || knowsAddress(c) || mountsImage(s.pod, c) ||
			ctx.Err() != nil {
			continue
		}
		if _, err := s.Engine.Image(ctx, c.Image); err != nil {
			continue
		}
		if id, _, err := s.make(ctx, c, sandboxID, 0); err == nil {
			s.prepared[c.Name] = prepared{id: id, sandbox: sandboxID}
		}
	}
}

// knowsAddress tells a container whose variables show the pod's address, which the sandbox brings.
func knowsAddress(c *v1.Container) bool {
	for _, e := range c.Env {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			continue
		}
		if path := e.ValueFrom.FieldRef.FieldPath; path == "status.podIP" || path == "status.podIPs" {
			return true
		}
	}
	return false
}

// ready is the container that prepare made for this start, if it did.
func (s *starter) ready(name string, attempt int) (string, bool) {
	p, ok := s.prepared[name]
	return p.id, ok && p.sandbox == s.sandbox.ID && attempt == 0
}

var errVolumes = errors.New("volumes are not ready")

// make makes a container; the reason it returns with an error is the one a status reports. Volumes are made first by a
// kubelet that was restarted, or if they could not be made before.
func (s *starter) make(
	ctx context.Context, c *v1.Container, sandboxID string, attempt int,
) (id, reason string, err error) {
	if !s.mounted {
		if s.mount(ctx); !s.mounted {
			return "", "", errVolumes
		}
	}
	mounted, reason, err := s.withImages(ctx, c)
	if err != nil {
		return "", reason, err
	}
	image, err := s.Images.Ensure(ctx, s.pod, c, func(eventType, reason, format string, args ...any) {
		s.recordContainer(s.pod, c, eventType, reason, fmt.Sprintf(format, args...))
	})
	if err != nil {
		return "", imageReason(err), err
	}
	given, err := s.devices(ctx, c)
	if err != nil {
		return "", "CreateContainerConfigError", err
	}
	container, err := s.Builder.Container(ctx, &spec.Request{
		Pod: s.pod, Container: c, Sandbox: &runtime.Sandbox{ID: sandboxID}, Attempt: attempt, Image: image,
		Volumes: mounted, Target: s.target(ctx, s.pod, c.Name),
		Devices: given,
	})
	if err != nil {
		if errors.Is(err, volumes.ErrImageVolume) { // which upstream's engine finds
			return "", "CreateContainerError", err
		}
		return "", "CreateContainerConfigError", err
	}
	if id, err = s.Engine.CreateContainer(ctx, container); err != nil {
		return "", "CreateContainerError", err
	}
	s.recordContainer(s.pod, c, v1.EventTypeNormal, "Created", "Container created")
	return id, "", nil
}
