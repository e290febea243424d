package main

import (
	"context"
	"time"

	"quintet.dev/quintet/internal/footprint"
)

// trimPeriod is how often memory is given back. A kubelet works when pods start and end, and rests most of the time: of
// its program it then needs a small part.
const trimPeriod = time.Minute

// trim gives memory back until ctx ends.
func trim(ctx context.Context) {
	ticker := time.NewTicker(trimPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			footprint.Trim()
		}
	}
}
