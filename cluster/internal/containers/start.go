package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/internal/clockfile"
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
	if c.attachment() == "" {
		if err := c.adopt(ctx); err != nil {
			return nil, fmt.Errorf("start %s: %w", m.Name, err)
		}
	}
	// A request that is given up half-way leaves a container that its clean-up does not see yet.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	id, err := c.create(ctx, m, p)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", m.Name, err)
	}
	c.place(m.Name).published.release()
	if _, err := c.docker.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", m.Name, c.explain(err)), removeContainer(ctx, c.docker, id))
	}
	return &instance{docker: c.docker, name: m.Name, id: id}, nil
}

// create makes a member's container, with its files in it, and returns its identity.
func (c *Containers) create(ctx context.Context, m backend.Member, p privileges) (string, error) {
	files, err := archive(rootDir, m.Files)
	if err != nil {
		return "", err
	}
	if err := ensureImage(ctx, c.docker, c.provider, m.Image); err != nil {
		return "", err
	}
	published := c.published(m)
	created, err := c.docker.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: c.containerName(m.Name), Config: c.containerConfig(m, published),
		HostConfig: c.hostConfig(m, p, published), NetworkingConfig: c.networking(m),
	})
	if err != nil {
		return "", err
	}
	_, err = c.docker.CopyToContainer(ctx, created.ID,
		client.CopyToContainerOptions{DestinationPath: "/", Content: files})
	if err != nil {
		return "", errors.Join(err, removeContainer(ctx, c.docker, created.ID))
	}
	return created.ID, nil
}

// published maps ports of the engine's host to the member's.
func (c *Containers) published(m backend.Member) []backend.PublishedPort {
	published := slices.Clone(m.Publish)
	if port := c.place(m.Name).published.number; port != 0 {
		published = append(published, backend.PublishedPort{Host: port, Member: m.Port, Protocol: "tcp"})
	}
	return published
}

// clockEnv is the variable that has programs follow the files by which a member's clock is shifted.
const clockEnv = clockfile.Env + "=" + rootDir + "/clock"

func (c *Containers) containerConfig(m backend.Member, published []backend.PublishedPort) *container.Config {
	labels := c.labels()
	maps.Copy(labels, map[string]string{LabelComponent: m.Component, LabelMember: m.Name})
	config := &container.Config{
		Image: m.Image, Cmd: m.Args, Labels: labels, Volumes: map[string]struct{}{}, ExposedPorts: network.PortSet{},
		Env: []string{clockEnv},
	}
	for _, dir := range m.Data {
		if m.DataSize == 0 {
			config.Volumes[dir] = struct{}{}
		}
	}
	for _, port := range published {
		config.ExposedPorts[containerPort(port)] = struct{}{}
	}
	if m.StopGrace > 0 {
		seconds := int(m.StopGrace.Round(time.Second).Seconds())
		config.StopTimeout = &seconds
	}
	if m.SharesNetworkWith == "" {
		config.Hostname = c.containerName(m.Name) // else it is the other's, as all of its network is
	}
	if !m.Machine {
		// By name, so that upstream's image of a component can stand in: both have it on the path.
		config.Entrypoint = []string{m.Program}
	}
	return config
}

// hostConfig gives the container its ports on the engine's host, and what it may do.
func (c *Containers) hostConfig(m backend.Member, p privileges,
	published []backend.PublishedPort) *container.HostConfig {
	host := &container.HostConfig{PortBindings: network.PortMap{}, NetworkMode: container.NetworkMode(c.attachment())}
	for _, p := range published {
		bind := c.engine().bind
		if p.Address.IsValid() {
			bind = p.Address
		}
		port := containerPort(p)
		host.PortBindings[port] = append(host.PortBindings[port],
			network.PortBinding{HostIP: bind, HostPort: strconv.Itoa(p.Host)})
	}
	for _, m := range m.Mounts {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.HostPath, Target: m.ContainerPath,
			ReadOnly: m.ReadOnly})
	}
	if m.SharesNetworkWith != "" {
		host.NetworkMode = container.NetworkMode("container:" + c.containerName(m.SharesNetworkWith))
	}
	if m.DataSize > 0 {
		for _, dir := range m.Data {
			host.Mounts = append(host.Mounts, smallDisk(dir, m.DataSize))
		}
	}
	if m.DataFrom != "" {
		host.VolumesFrom = []string{c.containerName(m.DataFrom)}
	}
	switch m.Network {
	case backend.NetworkAdmin, backend.NetworkRouter, backend.NetworkTap:
		host.CapAdd = []string{"NET_ADMIN", "NET_RAW"}
	case backend.NetworkNone:
		host.NetworkMode = "none"
	}
	if m.Network == backend.NetworkTap {
		host.DeviceCgroupRules = []string{"c 10:200 rwm"} // /dev/net/tun
	}
	if m.Network == backend.NetworkRouter {
		c.unmask(host) // it sets the sysctls of its own network
	}
	limitResources(host, m.Resources)
	if m.Machine {
		p.apply(host)
		if !p.full {
			c.unmask(host)
			c.allowConsole(host)
		}
	}
	return host
}

// smallDisk is a volume without a name, which goes with its container, in the memory of the engine's machine.
func smallDisk(dir string, size int64) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Target: dir,
		VolumeOptions: &mount.VolumeOptions{DriverConfig: &mount.Driver{
			Name: "local", Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": fmt.Sprintf("size=%d", size)}}}}
}

// networking gives the container its addresses and names on the cluster's network.
func (c *Containers) networking(m backend.Member) *network.NetworkingConfig {
	if m.SharesNetworkWith != "" || m.Network == backend.NetworkNone {
		return nil
	}
	where := c.place(m.Name)
	endpoint := &network.EndpointSettings{Aliases: []string{m.Name},
		IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: where.ips[0]}}
	if len(where.ips) > 1 {
		endpoint.IPAMConfig.IPv6Address = where.ips[1]
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{c.attachment(): endpoint}}
}

func containerPort(p backend.PublishedPort) network.Port {
	return network.MustParsePort(strconv.Itoa(p.Member) + "/" + p.Protocol)
}

// refused tells whether the engine may not grant full privileges.
func refused(err error) bool {
	message := err.Error()
	return strings.Contains(message, "operation not permitted") || strings.Contains(message, "apply caps") ||
		strings.Contains(message, "privileged mode is")
}
