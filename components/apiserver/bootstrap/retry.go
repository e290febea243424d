package bootstrap

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

const (
	// A server without roles, system priority classes or flow schemas is of no use, so that it ends when it can't write
	// them for so long.
	retryTimeout    = 30 * time.Second
	fairnessTimeout = 5 * time.Minute
	retryPause      = time.Second
)

// retryUntil returns steps that are retried until they succeed, and fail only after the timeout: the store may be
// without a leader for a moment.
func (b *Bootstrap) retryUntil(retryTimeout time.Duration, steps ...step) []step {
	out := make([]step, len(steps))
	for i, s := range steps {
		out[i] = step{s.name, func(ctx context.Context) error {
			end := b.cfg.Clock.Now().Add(retryTimeout)
			for {
				err := s.run(ctx)
				if err == nil || ctx.Err() != nil || b.cfg.Clock.Now().Add(retryPause).After(end) {
					return err
				}
				klog.FromContext(ctx).Error(err,
					"Could not write what a cluster has from its first moment; trying again", "what", s.name)
				select {
				case <-ctx.Done():
					return err
				case <-b.cfg.Clock.After(retryPause):
				}
			}
		}}
	}
	return out
}

// bestEffort returns steps whose failure doesn't keep the server from starting: Run repeats them.
func bestEffort(steps ...step) []step {
	out := make([]step, len(steps))
	for i, s := range steps {
		out[i] = step{s.name, func(ctx context.Context) error {
			keep(ctx, s)
			return nil
		}}
	}
	return out
}
