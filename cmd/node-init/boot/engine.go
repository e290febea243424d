package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// engine is what runs the containers of the node's pods, as node-init sees it.
type engine struct {
	name, log   string
	argv        []string
	authorities string // directory in which it looks for those of registries
	loaded      string // directory of marks, one for each archive that it has loaded
	// ready tells that it answers; load loads an archive of images.
	ready func(ctx context.Context) error
	load  func(ctx context.Context, archive string) error
	// ahead is what must listen on a socket before the engine is started; nil for nothing.
	ahead  []string
	socket string
	// beforeRestart is what the engine needs before it is started again; nil for nothing.
	beforeRestart func(ctx context.Context) error
}

// startAhead starts what the engine needs, and returns when that listens.
func (e *engine) startAhead(ctx context.Context, s *supervisor, output *os.File) error {
	if e.ahead == nil {
		return nil
	}
	if err := s.add(service{name: e.ahead[0], argv: e.ahead, output: output}); err != nil {
		return err
	}
	needed := engine{name: e.ahead[0], ready: func(ctx context.Context) error { return listens(ctx, e.socket) }}
	return needed.wait(ctx, engineReadyAfter)
}

// newEngine prepares the engine that the kubelet is to use.
func newEngine(reaper *reaper, kubeletArgs []string) (engine, error) {
	cri, err := usesCRI(kubeletArgs)
	if err != nil {
		return engine{}, err
	}
	if cri {
		return containerd(reaper, kubeletArgs)
	}
	return docker(reaper)
}

func docker(reaper *reaper) (engine, error) {
	// Files of an engine that was killed with the node; it would refuse to start with them.
	for _, stale := range []string{"/var/run/docker.pid", "/var/run/docker/containerd/containerd.pid"} {
		_ = os.Remove(stale)
	}
	if err := writeDockerConfig(dockerConfig); err != nil {
		return engine{}, err
	}
	argv, err := dockerdCommand(configDir)
	if err != nil {
		return engine{}, err
	}
	var ahead []string
	var socket string
	var beforeRestart func(ctx context.Context) error
	if !ownPlaces(argv) {
		if ahead, socket, err = dockersContainerd(); err != nil {
			return engine{}, err
		}
		argv = append(argv, "--containerd="+socket)
		beforeRestart = (&orphanKiller{
			run: reaper.output, socket: socket, namespace: dockerNamespace(argv),
			containers: filepath.Join(dockerData, "containers"),
		}).killOrphans
	}
	client := engineClient(dockerSocket)
	return engine{
		ahead: ahead, socket: socket, beforeRestart: beforeRestart,
		name: "dockerd", log: dockerLog, argv: argv, authorities: dockerAuthorities, loaded: loadedDir,
		ready: func(ctx context.Context) error { return ping(ctx, client) },
		load:  func(ctx context.Context, archive string) error { return loadImage(ctx, client, archive) },
	}, nil
}

// writeDockerConfig turns on what the engine has no flag for: devices of CDI, which drivers of devices name. A file of
// the user's is left as it is.
func writeDockerConfig(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	_, err = file.WriteString(`{"features": {"cdi": true}}` + "\n")
	return errors.Join(err, file.Close())
}

// loadArchive loads an archive into the engine that the node has.
func loadArchive(archive io.Reader) error {
	argv := []string{"docker", "load", "--quiet"}
	if _, err := os.Stat(containerdDir); err == nil {
		argv = importing("-")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = archive, os.Stdout, os.Stderr
	return cmd.Run()
}

// enginePoll is short: the engine's start is most of a node's.
const enginePoll = 10 * time.Millisecond

// engineClient is an HTTP client of the Docker engine's socket. Two requests don't need a client library.
func engineClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
}

// wait returns when the engine answers.
func (e *engine) wait(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := e.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer after %s: %w", e.name, timeout, err)
		case <-time.After(enginePoll):
		}
	}
}

func ping(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// loadImages loads the image archives of dir that were not loaded yet into the engine.
func (e *engine) loadImages(ctx context.Context, dir string) error {
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil || len(archives) == 0 {
		return err
	}
	if err := os.MkdirAll(e.loaded, 0o755); err != nil {
		return err
	}
	for _, archive := range archives {
		mark := filepath.Join(e.loaded, filepath.Base(archive))
		if _, err := os.Stat(mark); err == nil {
			continue
		}
		if err := e.load(ctx, archive); err != nil {
			return fmt.Errorf("load image %s: %w", archive, err)
		}
		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func loadImage(ctx context.Context, client *http.Client, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker/images/load?quiet=1", file)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-tar")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return loadResult(response)
}

// loadResult reads the engine's stream of messages, which reports failures after the status line.
func loadResult(response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	decoder := json.NewDecoder(response.Body)
	for {
		var message struct {
			Error string `json:"error"`
		}
		err := decoder.Decode(&message)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if message.Error != "" {
			return errors.New(message.Error)
		}
	}
}
