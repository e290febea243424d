package pods

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
)

// prepared is a container that was made, and told of, while its sandbox started.
type prepared struct{ id, sandbox string }

// prepare makes the containers that start first while their sandbox starts, which takes longer than all the rest.
// What can't be prepared is made, and its failures are told of, when its turn comes.
func (w *worker) prepare(ctx context.Context, pod *v1.Pod, sandbox string) {
	first := pod.Spec.Containers
	if len(pod.Spec.InitContainers) > 0 {
		first = pod.Spec.InitContainers[:1]
	}
	for i := range first {
		c := &first[i]
		if images.Policy(c) == v1.PullAlways || knowsAddress(c) || ctx.Err() != nil {
			continue
		}
		if _, err := w.m.Engine.Image(ctx, c.Image); err != nil {
			continue
		}
		id, _, err := w.make(ctx, pod, c, &runtime.Sandbox{ID: sandbox}, 0)
		if err != nil {
			continue
		}
		w.mu.Lock()
		w.prepared[c.Name] = prepared{id: id, sandbox: sandbox}
		w.mu.Unlock()
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

// ready is the container that prepare made for this start, if it did; it is forgotten.
func (w *worker) ready(name, sandbox string, attempt int) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.prepared[name]
	delete(w.prepared, name)
	return p.id, ok && p.sandbox == sandbox && attempt == 0
}

// make makes a container; the reason it returns with an error is the one a status reports.
func (w *worker) make(ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtime.Sandbox, attempt int) (id, reason string, err error) {
	paths, ok := w.mounted(ctx, pod)
	if !ok {
		return "", "", errVolumes
	}
	image, err := w.m.Images.Ensure(ctx, pod, c, func(eventType, reason, format string, args ...any) {
		w.m.recordContainer(pod, c, eventType, reason, fmt.Sprintf(format, args...))
	})
	if err != nil {
		return "", imageReason(err), err
	}
	s, err := w.m.Builder.Container(ctx, &spec.Request{
		Pod: pod, Container: c, Sandbox: sandbox, Attempt: attempt, Image: image, Volumes: paths, Target: w.target(ctx, pod, c.Name),
	})
	if err != nil {
		return "", "CreateContainerConfigError", err
	}
	if id, err = w.m.Engine.CreateContainer(ctx, s); err != nil {
		return "", "CreateContainerError", err
	}
	w.m.recordContainer(pod, c, v1.EventTypeNormal, "Created", "Container created")
	return id, "", nil
}

// fresh tells a pod of which no container was ever made: only its containers are prepared.
func fresh(observed *runtime.Pod, action plan.Action) bool {
	return action.Attempt == 0 && len(observed.Containers) == 0
}
