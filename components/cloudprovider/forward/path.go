// Package forward is the data path of load balancers: packets for their addresses are routed, as they are, to nodes,
// whose kube-proxy translates them. Nodes answer clients directly.
package forward

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/cloudprovider/health"
)

// Kernel forwards packets.
type Kernel interface {
	// Apply makes the kernel hold just this state. It costs little where it does already.
	Apply(context.Context, State) error
	// Serve answers for the addresses of the last state until ctx ends or it fails.
	Serve(context.Context) error
	// Close removes the state.
	Close() error
}

// Config of a path.
type Config struct {
	Kernel Kernel
	// ProxyPort is the port of kube-proxy's health check.
	ProxyPort uint16
	// Period is how often the health of nodes is checked, Timeout how long an answer may take.
	Period, Timeout time.Duration
	// Resync is how often the kernel is compared without a cause.
	Resync time.Duration
	Clock  clock.WithTicker
	// Synced is called after each sync, with its start, the wanted state and its result. It must not block.
	Synced func(began time.Time, wanted State, err error)
}

// retryDelay is the time until a failed sync is repeated.
const retryDelay = time.Second

// Path keeps the kernel in step with load balancers, nodes and their health. It is safe for concurrent use.
type Path struct {
	config Config
	wake   chan struct{}

	mu        sync.Mutex
	balancers map[string]Balancer
	ready     bool // nodes were set at least once
	nodes     []Node
	known     []netip.Addr
}

// New returns a path without load balancers.
func New(config Config) *Path {
	return &Path{config: config, wake: make(chan struct{}, 1), balancers: map[string]Balancer{}}
}

// Set adds a load balancer or changes it.
func (p *Path) Set(key string, balancer Balancer) {
	p.mu.Lock()
	p.balancers[key] = balancer
	p.mu.Unlock()
	p.changed()
}

// Delete removes a load balancer.
func (p *Path) Delete(key string) {
	p.mu.Lock()
	delete(p.balancers, key)
	p.mu.Unlock()
	p.changed()
}

// SetNodes replaces the nodes that take packets, each of which has an address, and the addresses of all nodes. The
// kernel is not touched before the first call, so load balancers that were there before should be set by then.
func (p *Path) SetNodes(nodes []Node, known []netip.Addr) {
	p.mu.Lock()
	same := p.ready && slices.Equal(p.known, known) && slices.EqualFunc(p.nodes, nodes, func(a, b Node) bool {
		return a.Name == b.Name && slices.Equal(a.Addresses, b.Addresses)
	})
	p.ready, p.nodes, p.known = true, nodes, known
	p.mu.Unlock()
	if !same {
		p.changed()
	}
}

func (p *Path) changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// snapshot returns copies; ready is false as long as the nodes are not known.
func (p *Path) snapshot() (balancers map[string]Balancer, nodes []Node, known []netip.Addr, ready bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.balancers), p.nodes, p.known, p.ready
}

// Run forwards packets until ctx ends. The kernel is left without any of it.
func (p *Path) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { cancel(p.config.Kernel.Serve(ctx)) })
	prober := health.New(p.config.Period, p.config.Timeout, p.config.Clock, p.changed)
	planner := &planner{}
	for ctx.Err() == nil {
		timer := p.config.Clock.NewTimer(p.sync(ctx, planner, prober))
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-timer.C():
		}
		timer.Stop()
	}
	err := context.Cause(ctx)
	cancel(nil)
	serving.Wait()
	prober.Close()
	return errors.Join(err, p.config.Kernel.Close())
}

// sync applies the present state and returns how long to wait for a cause before the next sync.
func (p *Path) sync(ctx context.Context, planner *planner, prober *health.Prober) time.Duration {
	balancers, nodes, known, ready := p.snapshot()
	if !ready {
		return p.config.Resync
	}
	began := p.config.Clock.Now()
	prober.Watch(ctx, targets(balancers, nodes, p.config.ProxyPort))
	state := State{Routes: planner.plan(balancers, nodes, p.config.ProxyPort, prober.Healthy), Nodes: known}
	err := p.config.Kernel.Apply(ctx, state)
	p.config.Synced(began, state, err)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to sync routes of load balancers; retrying")
		return min(retryDelay, p.config.Resync)
	}
	return p.config.Resync
}
