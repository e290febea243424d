// Package health polls nodes whether they accept packets of load balancers.
package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// tolerated is how many questions in a row may stay without an answer. A refusal counts at once.
const tolerated = 1

// Target is a health check of a node: kube-proxy's own, or the health check node port of a Service.
type Target = netip.AddrPort

// Prober probes targets by GET /healthz. It is safe for concurrent use.
type Prober struct {
	client  *http.Client
	clock   clock.WithTicker
	period  time.Duration
	changed func()

	running sync.WaitGroup
	mu      sync.Mutex
	targets map[Target]*probe
}

type probe struct {
	stop     context.CancelFunc
	healthy  bool // guarded by the Prober's mu
	failures int  // belongs to the probe's goroutine
}

// New returns a prober that probes each target once per period, and calls changed when a result changes.
func New(period, timeout time.Duration, clock clock.WithTicker, changed func()) *Prober {
	return &Prober{
		client: &http.Client{
			Timeout:   timeout,
			Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 10 * period, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
		clock: clock, period: period, changed: changed, targets: map[Target]*probe{},
	}
}

// Watch probes exactly these targets from now on, until ctx ends. Results of targets that were probed before are kept.
func (p *Prober) Watch(ctx context.Context, targets map[Target]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for target, probe := range p.targets {
		if !targets[target] {
			probe.stop()
			delete(p.targets, target)
		}
	}
	for target := range targets {
		if p.targets[target] != nil {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		added := &probe{stop: stop}
		p.targets[target] = added
		p.running.Go(func() { p.run(ctx, target, added) })
	}
}

// Healthy tells whether a target is healthy, as of the last checks.
func (p *Prober) Healthy(target Target) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	probe := p.targets[target]
	return probe != nil && probe.healthy
}

// Close stops all questions and returns when they have ended.
func (p *Prober) Close() {
	p.Watch(context.Background(), nil)
	p.running.Wait()
	p.client.CloseIdleConnections()
}

func (p *Prober) run(ctx context.Context, target Target, of *probe) {
	ticker := p.clock.NewTicker(p.period)
	defer ticker.Stop()
	for {
		err := p.ask(ctx, target)
		if ctx.Err() != nil {
			return
		}
		p.note(ctx, target, of, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// note takes note of an answer.
func (p *Prober) note(ctx context.Context, target Target, of *probe, err error) {
	var refusal refusedError
	switch {
	case err == nil:
		of.failures = 0
	case errors.As(err, &refusal) || errors.Is(err, syscall.ECONNREFUSED):
		of.failures = tolerated + 1
	default:
		of.failures++
	}
	p.mu.Lock()
	was := of.healthy
	of.healthy = err == nil || was && of.failures <= tolerated
	now := of.healthy
	p.mu.Unlock()
	if was != now {
		klog.FromContext(ctx).V(2).Info("Health of a node changed", "target", target, "healthy", now, "err", err)
		p.changed()
	}
}

// refusedError is an answer other than 200.
type refusedError struct{ status string }

func (e refusedError) Error() string { return fmt.Sprintf("GET /healthz: %s", e.status) }

func (p *Prober) ask(ctx context.Context, target Target) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target.String()+"/healthz", nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 4096)
	if response.StatusCode != http.StatusOK {
		return refusedError{response.Status}
	}
	return nil
}
