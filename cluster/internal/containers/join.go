package containers

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"quintet.dev/quintet/cluster/internal/backend"
)

// Attachment implements backend.Joinable.
func (c *Containers) Attachment(ctx context.Context) (backend.Attachment, error) {
	if err := c.adopt(ctx); err != nil {
		return backend.Attachment{}, err
	}
	labels := c.labels()
	labels[LabelComponent], labels[LabelJoined] = "node", "true"
	return backend.Attachment{
		Network: c.networkName(labels[LabelRun]), Labels: labels, Addressing: addressing{c},
		RunFlags: append(c.machinePrivileges().flags(), "--env", clockEnv),
	}, nil
}

// Joined implements backend.Joinable.
func (c *Containers) Joined(ctx context.Context) ([]backend.Instance, error) {
	found, err := List(ctx, c.config.Cluster)
	if err != nil {
		return nil, err
	}
	var joined []backend.Instance
	for _, f := range found {
		if f.Joined {
			joined = append(joined, &instance{docker: c.docker, name: f.Member, id: f.ID})
		}
	}
	return joined, nil
}

// joinedName is the name of the node that a container is which joined: that of its environment, or the host's. It is ""
// for one that is gone.
func joinedName(ctx context.Context, docker *testcontainers.DockerClient, id string) (string, error) {
	inspected, err := docker.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if ignoreGone(err) != nil {
		return "", fmt.Errorf("inspect container %s: %w", id, err)
	}
	if err != nil || inspected.Container.Config == nil {
		return "", nil
	}
	config := inspected.Container.Config
	for _, variable := range config.Env {
		if name, ok := strings.CutPrefix(variable, "NODE_NAME="); ok && name != "" {
			return name, nil
		}
	}
	return strings.ToLower(config.Hostname), nil
}

// flags are apply as flags of `docker run`.
func (p privileges) flags() []string {
	flags := []string{"--tmpfs", "/run:exec", "--tmpfs", "/tmp:exec"}
	if p.full {
		return append(flags, "--privileged")
	}
	return append(flags, "--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE", "--security-opt", "seccomp=unconfined",
		"--security-opt", "apparmor=unconfined", "--security-opt", "systempaths=unconfined",
		"--device-cgroup-rule", "a *:* rwm")
}
