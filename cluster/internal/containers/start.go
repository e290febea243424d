package containers

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"quintet.dev/quintet/cluster/internal/backend"
)

// createTimeout bounds the creation and start of one container.
const createTimeout = time.Minute

// Start creates and starts the container of a member.
func (c *Containers) Start(ctx context.Context, m backend.Member) (backend.Instance, error) {
	if !m.Machine {
		return c.run(ctx, m, privileges{})
	}
	p := c.machinePrivileges()
	i, err := c.run(ctx, m, p)
	if err != nil && p.full && refused(err) {
		c.setLimited()
		i, err = c.run(ctx, m, privileges{})
	}
	if err == nil {
		c.told.Do(func() { c.config.Notice(c.machinePrivileges().String()) })
	}
	return i, err
}

func (c *Containers) run(ctx context.Context, m backend.Member, p privileges) (backend.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// A request that is given up half-way leaves a container that its clean-up does not see yet.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	files, err := archive(rootDir, m.Files)
	if err != nil {
		return nil, err
	}
	created, err := c.provider.CreateContainer(ctx, c.request(m, p, func(ctx context.Context, id string) error {
		_, err := c.docker.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/", Content: files})
		return err
	}))
	if err != nil {
		return nil, c.explain(ctx, m, err)
	}
	if err := created.Start(ctx); err != nil {
		_, _ = c.docker.ContainerRemove(ctx, created.GetContainerID(), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return nil, c.explain(ctx, m, err)
	}
	return &instance{docker: c.docker, name: m.Name, id: created.GetContainerID()}, nil
}

func (c *Containers) explain(ctx context.Context, m backend.Member, err error) error {
	if missing := c.imageMissing(ctx, m.Image); missing != nil {
		return fmt.Errorf("start %s: %w", m.Name, missing)
	}
	return fmt.Errorf("start %s: %w", m.Name, err)
}

// request describes the container. copyFiles runs between creation and start.
func (c *Containers) request(m backend.Member, p privileges, copyFiles func(context.Context, string) error) testcontainers.ContainerRequest {
	labels := c.labels()
	maps.Copy(labels, map[string]string{LabelComponent: m.Component, LabelMember: m.Name})
	volumes := map[string]struct{}{}
	for _, dir := range m.Data {
		volumes[dir] = struct{}{}
	}
	request := testcontainers.ContainerRequest{
		Image:  m.Image,
		Name:   c.containerName(m.Name),
		Labels: labels,
		Cmd:    m.Args,
		ConfigModifier: func(config *container.Config) {
			config.Volumes = volumes
			if m.Beside == "" {
				config.Hostname = c.containerName(m.Name) // else it is the other's, as all of its network is
			}
		},
		HostConfigModifier: c.hostConfig(m, p),
		LifecycleHooks: []testcontainers.ContainerLifecycleHooks{{
			PostCreates: []testcontainers.ContainerHook{func(ctx context.Context, created testcontainers.Container) error {
				return copyFiles(ctx, created.GetContainerID())
			}},
		}},
	}
	if m.Beside == "" {
		c.attach(&request, m)
	}
	if !m.Machine {
		// By name, so that upstream's image of a component can stand in: both have it on the path.
		request.Entrypoint = []string{m.Program}
	}
	return request
}

// hostConfig gives the container its port on this machine, and what it may do.
func (c *Containers) hostConfig(m backend.Member, p privileges) func(*container.HostConfig) {
	published := maps.Clone(m.Publish)
	if port := c.place(m.Name).published; port != 0 {
		if published == nil {
			published = map[int]int{}
		}
		published[port] = m.Port
	}
	return func(host *container.HostConfig) {
		host.PortBindings = network.PortMap{}
		for here, there := range published {
			host.PortBindings[containerPort(there)] = append(host.PortBindings[containerPort(there)],
				network.PortBinding{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: strconv.Itoa(here)})
		}
		if m.Beside != "" {
			host.NetworkMode = container.NetworkMode("container:" + c.containerName(m.Beside))
		}
		if m.Network != backend.NetworkUse {
			host.CapAdd = []string{"NET_ADMIN", "NET_RAW"}
		}
		if m.Network == backend.NetworkRouter {
			host.MaskedPaths, host.ReadonlyPaths = []string{}, []string{} // it sets the sysctls of its own network
		}
		if m.Machine {
			p.apply(host)
		}
	}
}

// attach gives the container its address and names on the cluster's network.
func (c *Containers) attach(request *testcontainers.ContainerRequest, m backend.Member) {
	where := c.place(m.Name)
	request.Networks, request.NetworkAliases = []string{c.networkName()}, map[string][]string{c.networkName(): {m.Name}}
	request.EndpointSettingsModifier = func(endpoints map[string]*network.EndpointSettings) {
		for _, endpoint := range endpoints {
			endpoint.IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: where.ips[0]}
			if len(where.ips) > 1 {
				endpoint.IPAMConfig.IPv6Address = where.ips[1]
			}
		}
	}
	if where.published != 0 {
		request.ExposedPorts = []string{containerPort(m.Port).String()}
	}
	for _, port := range m.Publish {
		request.ExposedPorts = append(request.ExposedPorts, containerPort(port).String())
	}
}

func containerPort(port int) network.Port {
	return network.MustParsePort(strconv.Itoa(port) + "/tcp")
}

// refused tells whether the engine may not grant full privileges.
func refused(err error) bool {
	message := err.Error()
	return strings.Contains(message, "operation not permitted") || strings.Contains(message, "apply caps") ||
		strings.Contains(message, "privileged mode is")
}
