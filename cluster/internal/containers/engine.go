package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// connect opens a client of the engine that Testcontainers finds. Containers and networks are made through that client
// and not by Testcontainers itself, which starts its reaper with the first one that it creates: a container whose image
// would have to be pulled, and that keeps no cluster alive past this process. Clusters are found and removed by their
// labels, and Testcontainers' own configuration, which other code of this process may rely on, stays as it is.
func connect(ctx context.Context) (*testcontainers.DockerClient, error) {
	asked := os.Getenv(client.EnvOverrideHost)
	if strings.HasPrefix(asked, "ssh://") {
		return nil, fmt.Errorf("%s=%s: an engine can't be reached over SSH; forward its socket "+
			"(ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST), and set %s=unix:///tmp/docker.sock and "+
			"%s=HOST", client.EnvOverrideHost, asked, client.EnvOverrideHost, hostOverride)
	}
	introduce.Do(func() {
		kept := log.Default()
		log.SetDefault(log.NewNoopLogger())
		defer log.SetDefault(kept)
		if docker, err := testcontainers.NewDockerClientWithOpts(ctx); err == nil {
			_ = docker.Close()
		}
	})
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err == nil {
		_, err = docker.Ping(ctx, client.PingOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("no Docker engine (is it started, and may this user reach it?): %w", err)
	}
	// Testcontainers takes the next engine that answers. Its property tc.host goes before the environment.
	if asked != "" && docker.DaemonHost() != asked && testcontainers.ReadConfig().Config.TestcontainersHost == "" {
		other := docker.DaemonHost()
		return nil, errors.Join(fmt.Errorf("no Docker engine at %s=%s; there is one at %s", client.EnvOverrideHost,
			asked, other),
			docker.Close())
	}
	return docker, nil
}

// introduce spends, once per process, the ten lines that Testcontainers prints about the engine when it first meets it.
var introduce sync.Once

// newProvider is Testcontainers' view of the engine: it knows the engine's host and the credentials of registries.
func newProvider() (*testcontainers.DockerProvider, error) {
	provider, err := testcontainers.NewDockerProvider(
		testcontainers.WithLogger(log.NewNoopLogger()), testcontainers.WithDefaultBridgeNetwork(testcontainers.Bridge))
	if err != nil {
		return nil, fmt.Errorf("connect to Docker: %w", err)
	}
	return provider, nil
}

// engineHost is where published ports of an engine's containers are reached from here.
type engineHost struct {
	name string     // host name or address, as clients dial it
	bind netip.Addr // the address of the engine's host that ports are published on
}

// hostOverride names the engine's host where it can't be found out.
const hostOverride = "TESTCONTAINERS_HOST_OVERRIDE"

// findHost asks Testcontainers, which goes by TESTCONTAINERS_HOST_OVERRIDE, then by the address of the engine. Next to
// a local socket it takes the file /.dockerenv for a sign that this process is in a container, and the default gateway
// for the engine's host; but some machines have that file, too. Where the gateway of one of the engine's networks is an
// address of this machine, the engine is here.
func findHost(ctx context.Context, docker *testcontainers.DockerClient, provider *testcontainers.DockerProvider,
	gateway netip.Addr) (engineHost, error) {
	_, overridden := os.LookupEnv(hostOverride)
	if !overridden && strings.HasPrefix(docker.DaemonHost(), "unix://") && isOwn(gateway) {
		return hostNamed("localhost"), nil
	}
	name, err := provider.DaemonHost(ctx)
	if err == nil && name == "" {
		err = fmt.Errorf("%s is set, and empty", hostOverride)
	}
	if err != nil {
		return engineHost{}, fmt.Errorf("find out where Docker publishes ports: %w", err)
	}
	return hostNamed(name), nil
}

// isOwn tells whether an interface of this machine has the address.
func isOwn(ip netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addresses, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr() == ip
	})
}

// hostNamed chooses what to publish on: an address of this machine alone if the engine is here, all of IPv4 or of both
// families if it is elsewhere, as another machine's loopback can't be reached.
func hostNamed(name string) engineHost {
	if name == "localhost" {
		name = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
	switch {
	case err != nil:
		return engineHost{name: name, bind: netip.IPv4Unspecified()}
	case ip.IsLoopback():
		return engineHost{name: ip.String(), bind: ip}
	case ip.Is4():
		return engineHost{name: ip.String(), bind: netip.IPv4Unspecified()}
	default:
		return engineHost{name: ip.String(), bind: netip.IPv6Unspecified()}
	}
}

// isLocal tells whether ports are published on the loopback of this machine.
func (h engineHost) isLocal() bool { return h.bind.IsLoopback() }

// ensureImage pulls an image that the engine lacks.
func ensureImage(ctx context.Context, docker *testcontainers.DockerClient, provider *testcontainers.DockerProvider,
	ref string) error {
	_, err := docker.ImageInspect(ctx, ref)
	if !errdefs.IsNotFound(err) {
		return err
	}
	err = provider.PullImage(ctx, ref)
	if err == nil {
		_, err = docker.ImageInspect(ctx, ref) // Podman tells of a failure in what it streams, where nothing looks
	}
	if err != nil {
		return fmt.Errorf("the Docker engine has no image %s, and can't pull it: build or pull it first (Quintet's own: "+
			"quintet images build): %w",
			ref, err)
	}
	return nil
}
