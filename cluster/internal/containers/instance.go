package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"quintet.dev/quintet/cluster/internal/backend"
)

// instance is the container of one member.
type instance struct {
	docker *testcontainers.DockerClient
	name   string
	id     string
}

// errNotRunning is what the engine says in other words of a container that can't be paused.
var errNotRunning = errors.New("it does not run; start it first")

func (i *instance) Name() string { return i.name }

func (i *instance) Start(ctx context.Context) error {
	_, err := i.docker.ContainerStart(ctx, i.id, client.ContainerStartOptions{})
	return i.wrap("start", err)
}

func (i *instance) Stop(ctx context.Context, grace time.Duration) error {
	seconds := int(grace.Round(time.Second).Seconds())
	inspected, err := i.docker.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
	if err != nil {
		return i.wrap("stop", err)
	}
	if own := inspected.Container.Config; own != nil && own.StopTimeout != nil {
		seconds = max(seconds, *own.StopTimeout)
	}
	_, err = i.docker.ContainerStop(ctx, i.id, client.ContainerStopOptions{Timeout: &seconds})
	return i.wrap("stop", err)
}

func (i *instance) Kill(ctx context.Context) error {
	_, err := i.docker.ContainerKill(ctx, i.id, client.ContainerKillOptions{Signal: "KILL"})
	if err == nil {
		// The engine answers when the signal was sent; a member is killed when it is gone.
		err = i.waitStopped(ctx)
	}
	return i.wrap("kill", err)
}

func (i *instance) waitStopped(ctx context.Context) error {
	wait := i.docker.ContainerWait(ctx, i.id, client.ContainerWaitOptions{})
	select {
	case <-wait.Result:
		return nil
	case err := <-wait.Error:
		return err
	}
}

func (i *instance) Pause(ctx context.Context) error {
	state, err := i.State(ctx)
	switch {
	case err != nil:
		return err
	case state.Paused:
		return nil
	case !state.Running:
		return i.wrap("pause", errNotRunning)
	}
	_, err = i.docker.ContainerPause(ctx, i.id, client.ContainerPauseOptions{})
	return i.wrap("pause", err)
}

func (i *instance) Unpause(ctx context.Context) error {
	state, err := i.State(ctx)
	switch {
	case err != nil:
		return err
	case !state.Running:
		return i.wrap("unpause", errNotRunning)
	case !state.Paused:
		return nil
	}
	_, err = i.docker.ContainerUnpause(ctx, i.id, client.ContainerUnpauseOptions{})
	return i.wrap("unpause", err)
}

func (i *instance) Exec(ctx context.Context, command []string, stdin io.Reader) (backend.ExecResult, error) {
	created, err := i.docker.ExecCreate(ctx, i.id, client.ExecCreateOptions{
		Cmd: command, AttachStdin: stdin != nil, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return backend.ExecResult{}, i.wrap("exec", err)
	}
	attached, err := i.docker.ExecAttach(ctx, created.ID, client.ExecAttachOptions{})
	if err != nil {
		return backend.ExecResult{}, i.wrap("exec", err)
	}
	defer attached.Close()
	stop := context.AfterFunc(ctx, attached.Close)
	defer stop()
	if stdin != nil {
		go func() {
			_, _ = io.Copy(attached.Conn, stdin)
			_ = attached.CloseWrite()
		}()
	}
	var stdout, stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, attached.Reader); err != nil {
		return backend.ExecResult{}, i.wrap("exec", errors.Join(ctx.Err(), err))
	}
	ended, err := i.docker.ExecInspect(ctx, created.ID, client.ExecInspectOptions{})
	if err != nil {
		return backend.ExecResult{}, i.wrap("exec", err)
	}
	return backend.ExecResult{Code: ended.ExitCode, Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, nil
}

func (i *instance) Logs(ctx context.Context, follow bool, to io.Writer) error {
	logs, err := i.docker.ContainerLogs(ctx, i.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true,
		Follow: follow})
	if err != nil {
		return i.wrap("logs", err)
	}
	defer logs.Close()
	if _, err := stdcopy.StdCopy(to, to, logs); err != nil && ctx.Err() == nil {
		return i.wrap("logs", err)
	}
	return nil
}

func (i *instance) ReadFile(ctx context.Context, name string) ([]byte, error) {
	copied, err := i.docker.CopyFromContainer(ctx, i.id,
		client.CopyFromContainerOptions{SourcePath: path.Join(rootDir, name)})
	if errdefs.IsNotFound(err) {
		return nil, i.wrap("read file of", fmt.Errorf("%w: %s", backend.ErrNoFile, name))
	}
	if err != nil {
		return nil, i.wrap("read file of", err)
	}
	defer copied.Content.Close()
	reader := tar.NewReader(copied.Content)
	if _, err := reader.Next(); err != nil {
		return nil, i.wrap("read file of", err)
	}
	return io.ReadAll(reader)
}

func (i *instance) WriteFile(ctx context.Context, name string, content []byte) error {
	files, err := archive(rootDir, map[string][]byte{name: content})
	if err != nil {
		return i.wrap("write file of", err)
	}
	_, err = i.docker.CopyToContainer(ctx, i.id, client.CopyToContainerOptions{DestinationPath: "/", Content: files})
	return i.wrap("write file of", err)
}

func (i *instance) State(ctx context.Context) (backend.State, error) {
	inspected, err := i.docker.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return backend.State{Error: "removed"}, nil
	}
	if err != nil {
		return backend.State{}, i.wrap("inspect", err)
	}
	state := inspected.Container.State
	return backend.State{Running: state.Running, Paused: state.Paused, ExitCode: state.ExitCode, Error: state.Error},
		nil
}

func (i *instance) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, i.name, err)
}

// NetworkAddresses are the member's addresses on the cluster's network, and its hardware address there, while it runs.
func (i *instance) NetworkAddresses(ctx context.Context) (ips []string, hardware string, err error) {
	inspected, err := i.docker.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, "", i.wrap("inspect", err)
	}
	for _, endpoint := range inspected.Container.NetworkSettings.Networks {
		for _, ip := range []netip.Addr{endpoint.IPAddress, endpoint.GlobalIPv6Address} {
			if ip.IsValid() {
				ips = append(ips, ip.String())
			}
		}
		hardware = endpoint.MacAddress.String()
	}
	if len(ips) == 0 {
		return nil, "", i.wrap("find the addresses of", errors.New("it has none; does it run?"))
	}
	return ips, hardware, nil
}

// archive packs files, named relative to dir, for one copy into a container.
func archive(dir string, files map[string][]byte) (io.Reader, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	made := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		full := strings.TrimPrefix(path.Join(dir, name), "/")
		if err := addParents(writer, full, made); err != nil {
			return nil, err
		}
		header := &tar.Header{Name: full, Mode: 0o600, Size: int64(len(files[name])), ModTime: time.Unix(0, 0)}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(files[name]); err != nil {
			return nil, err
		}
	}
	return &buffer, writer.Close()
}

func addParents(writer *tar.Writer, file string, made map[string]bool) error {
	for i, r := range file {
		if r != '/' || made[file[:i]] {
			continue
		}
		made[file[:i]] = true
		header := &tar.Header{Name: file[:i] + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(0, 0)}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
	}
	return nil
}
