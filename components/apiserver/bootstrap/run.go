package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/internal/follow"
)

const (
	renewEvery = 10 * time.Second
	// mendEvery is the interval at which deleted system namespaces are recreated, and the flow control objects are
	// restored.
	mendEvery = time.Minute
	// leaveTimeout is for how long a server that ends tries to take back each thing that tells of it.
	leaveTimeout = 10 * time.Second
)

// Run puts this server, which is ready, among the endpoints of the Service "kubernetes". It keeps these, this server's
// lease, the system namespaces and the other objects that must not be changed up to date until ctx ends, and then
// removes the server's address and lease. Faults of the configured ranges of cluster IPs are reported as events.
func (b *Bootstrap) Run(ctx context.Context, events record.EventRecorder) error {
	b.serviceCIDR.events, b.writer.running = events, true
	keep(ctx, step{"endpoints", b.endpoints.ensure}, step{"service CIDR", b.serviceCIDR.ensure})
	ticker := b.cfg.Clock.NewTicker(renewEvery)
	defer ticker.Stop()
	often := b.cfg.Clock.NewTicker(follow.Every)
	defer often.Stop()
	rare := b.cfg.Clock.NewTicker(mendEvery)
	defer rare.Stop()
	var said string // of what is tried so often that it is told of once
	for {
		select {
		case <-ctx.Done():
			b.leave(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C():
			keep(ctx, step{"lease", b.lease.renew}, step{"service CIDR", b.serviceCIDR.ensure},
				step{"service", b.ensureService},
				step{"endpoints", b.endpoints.keep})
		case <-often.C(): // as the files do of which it tells
			err := takeAll(ctx, []step{
				{"authentication of extension servers", b.authentication.ensure},
				{"tracking of legacy service account tokens", b.tracking.ensure},
			})
			switch {
			case err == nil:
				said = ""
			case ctx.Err() == nil && err.Error() != said:
				klog.FromContext(ctx).Error(err,
					"Could not keep what tells others of tokens and certificates; trying again")
				said = err.Error()
			}
		case <-rare.C():
			keep(ctx, step{"system namespaces", b.keepNamespaces},
				step{"flow schemas and priority levels", b.keepFairness},
				step{"leases of servers that are gone", b.lease.deleteExpired})
		}
	}
}

// keep takes steps, and says which of them failed.
func keep(ctx context.Context, steps ...step) {
	for _, s := range steps {
		if err := s.run(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to maintain bootstrap objects; retrying",
				"what", s.name)
		}
	}
}

// takeAll takes steps, whichever of them fails.
func takeAll(ctx context.Context, steps []step) error {
	var errs []error
	for _, s := range steps {
		if err := s.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// leave takes back what others know this server by, all at once: a store that doesn't answer holds up the end of the
// server only for leaveTimeout.
func (b *Bootstrap) leave(ctx context.Context) {
	var leaving sync.WaitGroup
	for _, s := range []step{{"endpoints", b.endpoints.leave}, {"lease", b.lease.end}} {
		leaving.Go(func() {
			within, cancel := context.WithTimeout(ctx, leaveTimeout)
			defer cancel()
			if err := s.run(within); err != nil {
				klog.FromContext(ctx).Error(err, "Failed to remove server lease and endpoints", "what", s.name)
			}
		})
	}
	leaving.Wait()
}
