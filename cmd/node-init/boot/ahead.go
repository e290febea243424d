package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	dockerData  = "/var/lib/docker"
	dockerState = "/var/run/docker"
)

// dockersContainerd is the containerd of dockerd, started ahead of it. One that dockerd starts itself is ready after a
// twentieth of a second, but found only after a whole one, when gRPC dials again. It keeps what it keeps where
// dockerd's own would.
func dockersContainerd() (argv []string, socket string, err error) {
	dir := filepath.Join(dockerState, "containerd")
	socket = filepath.Join(dir, "containerd.sock")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "ahead.toml")
	config := fmt.Appendf(nil, aheadFormat, filepath.Join(dockerData, "containerd", "daemon"),
		filepath.Join(dir, "daemon"), socket)
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, "", err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) { // of a node that was killed
		return nil, "", err
	}
	return []string{"containerd", "--config", file, "--log-level", "warn"}, socket, nil
}

const aheadFormat = `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]

[grpc]
  address = %q
`

// listens tells whether something does on a socket.
func listens(ctx context.Context, socket string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ownPlaces tells whether arguments of dockerd's have it keep its state elsewhere, or use another containerd.
func ownPlaces(arguments []string) bool {
	return slices.ContainsFunc(arguments, func(argument string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		return slices.Contains([]string{"data-root", "g", "exec-root", "containerd", "config-file"}, name)
	})
}
