package containers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// The range of ports lies below Kubernetes' node ports and the ports that Linux gives to clients: what is free now
// stays so, but for other servers.
const (
	firstPort = 20000
	endPort   = 30000
)

// ports chooses ports by number: a container that is restarted must keep its port, which Docker grants only to a number
// given at its creation.
type ports interface {
	next() (hostPort, error)
}

// hostPort is a port of the engine's host; the zero value is none. On this machine it is held by a listener, lest
// another cluster choose it, until its container starts.
type hostPort struct {
	number int
	held   net.Listener
}

// release lets the container have the port. It may be called again.
func (p hostPort) release() {
	if p.held != nil {
		_ = p.held.Close()
	}
}

func newPorts(ctx context.Context, docker *testcontainers.DockerClient, host engineHost) (ports, error) {
	listed, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	free := freePorts{taken: map[int]bool{}}
	for _, c := range listed.Items {
		for _, p := range c.Ports {
			free.taken[int(p.PublicPort)] = true
		}
	}
	if host.isLocal() {
		return localPorts{free: free, bind: host.bind}, nil
	}
	return free, nil
}

// freePorts are random ones that no container has. On another machine nothing else can be tried: should a program there
// have one, the engine refuses to start the container and names the port.
type freePorts struct{ taken map[int]bool }

func (p freePorts) next() (hostPort, error) {
	if len(p.taken) > (endPort-firstPort)/2 {
		return hostPort{}, errors.New("the engine's containers publish too many ports")
	}
	for {
		port := firstPort + rand.IntN(endPort-firstPort)
		if !p.taken[port] {
			p.taken[port] = true
			return hostPort{number: port}, nil
		}
	}
}

// localPorts are this machine's, on which nothing listens.
type localPorts struct {
	free freePorts
	bind netip.Addr
}

func (p localPorts) next() (hostPort, error) {
	for {
		port, err := p.free.next()
		if err != nil {
			return hostPort{}, err
		}
		port.held, err = net.Listen("tcp", net.JoinHostPort(p.bind.String(), strconv.Itoa(port.number)))
		switch {
		case err == nil:
			return port, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return hostPort{}, err
		}
	}
}

// address is one to dial.
func (h engineHost) address(port int) string { return net.JoinHostPort(h.name, strconv.Itoa(port)) }
