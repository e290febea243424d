package containers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// ports chooses ports by number: a container that is restarted must keep its port, which Docker grants only to a number
// given at its creation.
type ports interface {
	next() (int, error)
	// release ends the choice; what was chosen may then be listened on.
	release()
}

func newPorts(ctx context.Context, docker *testcontainers.DockerClient, host engineHost) (ports, error) {
	if host.isLocal() {
		return &localPorts{bind: host.bind}, nil
	}
	listed, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	taken := map[int]bool{}
	for _, c := range listed.Items {
		for _, p := range c.Ports {
			taken[int(p.PublicPort)] = true
		}
	}
	return &remotePorts{taken: taken}, nil
}

// localPorts are this machine's. Each is held until all are chosen, lest one be chosen twice.
type localPorts struct {
	bind netip.Addr
	held []net.Listener
}

func (p *localPorts) next() (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(p.bind.String(), "0"))
	if err != nil {
		return 0, err
	}
	p.held = append(p.held, listener)
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func (p *localPorts) release() {
	for _, listener := range p.held {
		_ = listener.Close()
	}
}

// remotePorts are another machine's, where nothing can be tried: they are random ones that no container has. Should a
// program there have one, the engine refuses to start the container and names the port.
type remotePorts struct{ taken map[int]bool }

// The range lies between Kubernetes' node ports' lower end and the ports that Linux gives to clients.
const (
	firstRemote = 20000
	endRemote   = 30000
)

func (p *remotePorts) next() (int, error) {
	if len(p.taken) > (endRemote-firstRemote)/2 {
		return 0, errors.New("the engine's containers publish too many ports")
	}
	for {
		port := firstRemote + rand.IntN(endRemote-firstRemote)
		if !p.taken[port] {
			p.taken[port] = true
			return port, nil
		}
	}
}

func (p *remotePorts) release() {}

// hostPort is an address to dial.
func (h engineHost) hostPort(port int) string { return net.JoinHostPort(h.name, strconv.Itoa(port)) }
