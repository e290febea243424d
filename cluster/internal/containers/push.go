package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"quintet.dev/quintet/cluster/internal/backend"
)

// Push tags an image for the port at which the engine's host has the registry, has the engine push it, and removes the
// tag. An engine trusts what is on its own loopback
// (https://docs.docker.com/reference/cli/dockerd/#insecure-registries).
func (c *Containers) Push(ctx context.Context, ref, name string, to backend.Instance,
	r backend.Registry) (digest string, err error) {
	published, err := c.publishedPort(ctx, to, r.Port)
	if err != nil {
		return "", err
	}
	target := net.JoinHostPort("127.0.0.1", strconv.Itoa(published.Host)) + "/" + name
	_, err = c.docker.ImageTag(ctx, client.ImageTagOptions{Source: ref, Target: target})
	if errdefs.IsNotFound(err) {
		return "", fmt.Errorf("the Docker engine has no image %s: build or pull it first", ref)
	}
	if err != nil {
		return "", err
	}
	defer func() {
		_, untag := c.docker.ImageRemove(context.WithoutCancel(ctx), target, client.ImageRemoveOptions{})
		err = errors.Join(err, untag)
	}()
	auth, err := authconfig.Encode(registry.AuthConfig{Username: r.Username, Password: r.Password})
	if err != nil {
		return "", err
	}
	pushing, err := c.docker.ImagePush(ctx, target, client.ImagePushOptions{RegistryAuth: auth})
	if err != nil {
		return "", err
	}
	for message, err := range pushing.JSONMessages(ctx) {
		if err != nil {
			return "", err
		}
		if message.Error != nil {
			return "", message.Error
		}
		var result struct{ Digest string }
		if message.Aux != nil && json.Unmarshal(*message.Aux, &result) == nil && result.Digest != "" {
			digest = result.Digest
		}
	}
	if digest == "" {
		return "", errors.New("the Docker engine tells no digest of what it pushed")
	}
	return digest, nil
}

// Endpoint is host:port at which this process reaches a port of a member.
func (c *Containers) Endpoint(ctx context.Context, of backend.Instance, port int) (string, error) {
	published, err := c.publishedPort(ctx, of, port)
	if err != nil {
		return "", err
	}
	if published.Address.IsLoopback() { // of this machine, as the start found
		return net.JoinHostPort(published.Address.String(), strconv.Itoa(published.Host)), nil
	}
	host, err := c.provider.DaemonHost(ctx)
	if err != nil {
		return "", err
	}
	return hostNamed(host).address(published.Host), nil
}

// publishedPort is the port of the engine's host that leads to a port of a member.
func (c *Containers) publishedPort(ctx context.Context, of backend.Instance,
	port int) (p backend.PublishedPort, err error) {
	member, ok := of.(*instance)
	if !ok {
		return p, fmt.Errorf("%s is no container", of.Name())
	}
	found, err := c.docker.ContainerInspect(ctx, member.id, client.ContainerInspectOptions{})
	if err != nil {
		return p, err
	}
	for _, binding := range found.Container.HostConfig.PortBindings[containerPort(backend.PublishedPort{Member: port,
		Protocol: "tcp"})] {
		if number, err := strconv.Atoi(binding.HostPort); err == nil {
			return backend.PublishedPort{Host: number, Member: port, Protocol: "tcp", Address: binding.HostIP}, nil
		}
	}
	return p, fmt.Errorf("%s does not publish port %d", of.Name(), port)
}
