package containers

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// podmanEngine is the component by which Podman's service names itself in the version of Docker's API.
const podmanEngine = "Podman Engine"

// podmanVersion is the version of the Podman that serves Docker's API, and empty if another engine does.
func podmanVersion(ctx context.Context, docker *testcontainers.DockerClient) (string, error) {
	version, err := docker.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return "", fmt.Errorf("ask the engine for its version: %w", err)
	}
	for _, c := range version.Components {
		if c.Name == podmanEngine {
			return c.Version, nil
		}
	}
	return "", nil
}

// unmask shows a container all of /proc and /sys, writable. Podman's service of Docker's API has an option of its own
// for that, and none for the lists of paths.
func (c *Containers) unmask(host *container.HostConfig) {
	if c.podman != "" {
		host.SecurityOpt = append(host.SecurityOpt, "unmask=ALL")
		return
	}
	host.MaskedPaths, host.ReadonlyPaths = []string{}, []string{} // the CLI's systempaths=unconfined
}

// nodeConsole is the path in a node of a device that only its rule in the device cgroup is there for.
const nodeConsole = "/dev/quintet-console"

// allowConsole lets the engine of a node without full privileges give its containers the console (5:1), of all devices
// that a container has by default the one that Podman does not give its own. Before version 4.4 its service ignores
// rules for devices, and a version 1 hierarchy of cgroups refuses what the node itself may not.
func (c *Containers) allowConsole(host *container.HostConfig) {
	if c.podman == "" || host.Privileged {
		return
	}
	host.Devices = append(host.Devices, container.DeviceMapping{
		PathOnHost: "/dev/console", PathInContainer: nodeConsole, CgroupPermissions: "rwm"})
}

// podmanHints say what to set where Podman's defaults don't suit a machine, by words of its error.
var podmanHints = map[string]string{
	"setrlimit": "set default_ulimits in the section [containers] of containers.conf to what this machine allows (ulimit " +
		"-Hn, -Hu)",
	"cgroups in hybrid mode not supported": "set runtime = \"runc\" in the section [engine] of containers.conf",
	"aardvark-dns":                         "install aardvark-dns, by which members find each other",
	"netavark":                             "install netavark, which makes the cluster's network",
}

// explain adds to an error of Podman what helps; others stay as they are.
func (c *Containers) explain(err error) error {
	if err == nil || c.podman == "" {
		return err
	}
	for words, hint := range podmanHints {
		if strings.Contains(err.Error(), words) {
			return fmt.Errorf("%w (Podman %s: %s; see docs/podman.md)", err, c.podman, hint)
		}
	}
	return err
}
