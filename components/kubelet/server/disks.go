package server

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// diskAge is how old a measured space on the disk may be that is told: to measure it, all files of a container are
// looked at.
const diskAge = time.Minute

// disks remembers what containers use of the disk. It is safe for concurrent use; the zero value knows nothing.
type disks struct {
	mu    sync.Mutex
	known map[string]measuredDisk // by ID of container
}

type measuredDisk struct {
	usage runtime.DiskUsage
	at    time.Time
}

// of measures a container, if it was not measured within diskAge.
func (d *disks) of(ctx context.Context, meter runtime.Disks, c clock.PassiveClock, id string) (runtime.DiskUsage,
	error) {
	d.mu.Lock()
	have, ok := d.known[id]
	d.mu.Unlock()
	now := c.Now()
	if ok && now.Sub(have.at) < diskAge {
		return have.usage, nil
	}
	usage, err := meter.Disk(ctx, id)
	if err != nil {
		return usage, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[string]measuredDisk{}
	}
	d.known[id] = measuredDisk{usage, now}
	for id, old := range d.known {
		if now.Sub(old.at) >= 2*diskAge { // the container is gone, or nothing asks any more
			delete(d.known, id)
		}
	}
	return usage, nil
}
