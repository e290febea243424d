package storage

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// KeepCompacted lets a store forget, every interval, what was old an interval ago, so that a list may be paged through
// for that long at least, and tells compacted what is forgotten. Several servers may do so on one store. It returns
// when ctx ends; interval 0 does nothing.
func KeepCompacted(ctx context.Context, s Store, c clock.WithTicker, interval time.Duration,
	compacted func(revision int64)) {
	if interval <= 0 {
		return
	}
	ticker := c.NewTicker(interval)
	defer ticker.Stop()
	var old int64
	for {
		now, err := s.Revision(ctx)
		if err == nil && old > 0 && old < now {
			if err = s.Compact(ctx, old); err == nil || errors.Is(err, ErrCompacted) {
				compacted(old)
			}
		}
		if err != nil && !errors.Is(err, ErrCompacted) && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to compact the store; retrying later", "interval", interval)
		}
		old = now
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}
