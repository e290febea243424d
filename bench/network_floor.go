package bench

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
	networks "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/images"
)

// engineTime is how long the engine takes for the containers of a cluster and nothing else: as many that do nothing are
// started all at once, each with a file, a network that is theirs alone and, as the API server has, a port of the host
// in front of one. No cluster of real containers can be there sooner on this machine. They are labelled as the
// cluster's, so that they go with it if this process ends before it has removed them.
func engineTime(ctx context.Context, cluster string, containers int) (_ time.Duration, err error) {
	docker, err := client.New(client.FromEnv)
	if err != nil {
		return 0, err
	}
	defer docker.Close()
	labels, err := clusterLabels(ctx, docker, cluster)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	name := fmt.Sprintf("bench-empty-%d", begin.UnixNano())
	if _, err := docker.NetworkCreate(ctx, name, client.NetworkCreateOptions{Labels: labels}); err != nil {
		return 0, err
	}
	ids := make([]string, containers)
	defer func() {
		err = errors.Join(err, removeEmpty(context.WithoutCancel(ctx), docker, name, ids))
	}()
	var group errgroup.Group
	for i := range ids {
		group.Go(func() (err error) {
			ids[i], err = startEmpty(ctx, docker, name, labels, i == 0)
			return err
		})
	}
	err = group.Wait()
	return time.Since(begin), err
}

// clusterLabels are the labels by which all that belongs to a cluster is removed.
func clusterLabels(ctx context.Context, docker *client.Client, cluster string) (map[string]string, error) {
	members, err := docker.ContainerList(ctx, client.ContainerListOptions{
		Filters: make(client.Filters).Add("label", "io.quintet.cluster="+cluster)})
	if err != nil {
		return nil, err
	}
	if len(members.Items) == 0 {
		return nil, fmt.Errorf("cluster %s has no containers", cluster)
	}
	labels := map[string]string{}
	for _, label := range []string{"io.quintet.cluster", "io.quintet.owner", "io.quintet.run"} {
		labels[label] = members.Items[0].Labels[label]
	}
	return labels, nil
}

// startEmpty starts a container that waits, and returns its ID also where only its start failed.
func startEmpty(ctx context.Context, docker *client.Client, networkName string, labels map[string]string,
	published bool) (string, error) {
	const port = "6443/tcp"
	config := &container.Config{Image: images.Prefix() + "/pause:" + images.Latest, Labels: labels}
	host := &container.HostConfig{NetworkMode: container.NetworkMode(networkName)}
	if published {
		config.ExposedPorts = networks.PortSet{networks.MustParsePort(port): {}}
		host.PortBindings = networks.PortMap{networks.MustParsePort(port): {{}}}
	}
	created, err := docker.ContainerCreate(ctx, client.ContainerCreateOptions{Config: config, HostConfig: host})
	if err != nil {
		return "", err
	}
	var file bytes.Buffer
	archive := tar.NewWriter(&file)
	const content = "a file"
	err = archive.WriteHeader(&tar.Header{Name: "etc/file", Mode: 0o600, Size: int64(len(content))})
	if err == nil {
		_, err = archive.Write([]byte(content))
	}
	if err = errors.Join(err, archive.Close()); err != nil {
		return created.ID, err
	}
	if _, err := docker.CopyToContainer(ctx, created.ID, client.CopyToContainerOptions{
		DestinationPath: "/", Content: &file,
	}); err != nil {
		return created.ID, err
	}
	_, err = docker.ContainerStart(ctx, created.ID, client.ContainerStartOptions{})
	return created.ID, err
}

func removeEmpty(ctx context.Context, docker *client.Client, networkName string, ids []string) error {
	var group errgroup.Group
	for _, id := range ids {
		group.Go(func() error {
			if id == "" {
				return nil
			}
			_, err := docker.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
			return err
		})
	}
	err := group.Wait()
	_, last := docker.NetworkRemove(ctx, networkName, client.NetworkRemoveOptions{})
	return errors.Join(err, last)
}
