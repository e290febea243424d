package bootstrap

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

const (
	// A server without roles, system priority classes or flow schemas is of no use, so that it ends when it can't write them for so long.
	patience         = 30 * time.Second
	fairnessPatience = 5 * time.Minute
	retryPause       = time.Second
)

// insist makes steps that are taken until they succeed, and fail only after a while: the store may be without a leader for a moment.
func (b *Bootstrap) insist(patience time.Duration, steps ...step) []step {
	out := make([]step, len(steps))
	for i, s := range steps {
		out[i] = step{s.name, func(ctx context.Context) error {
			end := b.cfg.Clock.Now().Add(patience)
			for {
				err := s.run(ctx)
				if err == nil || ctx.Err() != nil || b.cfg.Clock.Now().Add(retryPause).After(end) {
					return err
				}
				klog.FromContext(ctx).Error(err, "Could not write what a cluster has from its first moment; trying again", "what", s.name)
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

// leniently makes steps without which the server can do: Run takes them again.
func (b *Bootstrap) leniently(steps ...step) []step {
	out := make([]step, len(steps))
	for i, s := range steps {
		out[i] = step{s.name, func(ctx context.Context) error {
			b.keep(ctx, s)
			return nil
		}}
	}
	return out
}
