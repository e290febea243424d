package docker

import (
	"context"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// cdiDriver is the engine's name of what gives containers CDI devices.
const cdiDriver = "cdi"

// deviceEnv are the variables that CDI devices give a container. The engine does not remember them, and leaves them out
// of commands that are executed later, so that they are taken from the container's first process.
func (e *Engine) deviceEnv(ctx context.Context, id string) ([]string, error) {
	inspected, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, mark(err)
	}
	c := inspected.Container
	if c.State == nil || c.State.Pid == 0 || c.Config == nil || c.HostConfig == nil || !hasCDI(c.HostConfig) {
		return nil, nil
	}
	env, err := processEnv(c.State.Pid, id)
	if err != nil {
		return nil, err
	}
	return added(c.Config.Env, env), nil
}

func hasCDI(host *container.HostConfig) bool {
	return slices.ContainsFunc(host.DeviceRequests,
		func(r container.DeviceRequest) bool { return r.Driver == cdiDriver })
}

// added are the variables of have whose names known lacks.
func added(known, have []string) []string {
	names := map[string]bool{"HOSTNAME": true, "PATH": true, "HOME": true, "TERM": true} // the engine sets these itself
	for _, variable := range known {
		name, _, _ := strings.Cut(variable, "=")
		names[name] = true
	}
	return slices.DeleteFunc(slices.Clone(have), func(variable string) bool {
		name, _, found := strings.Cut(variable, "=")
		return !found || names[name]
	})
}
