package imagegc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// period is how often images are looked at, as upstream's.
const period = 5 * time.Minute

// Engine is the part of a container engine that is needed.
type Engine interface {
	runtime.Images
	Pods(ctx context.Context) ([]runtime.Pod, error)
}

// Config is what a collector works with.
type Config struct {
	Engine Engine
	Policy Policy
	// Pinned are references of images that always stay: the one that holds the namespaces of pods.
	Pinned []string
	// Mounted returns the IDs of images that are mounted as volumes; nil: none are.
	Mounted func() ([]string, error)
	Clock   clock.WithTicker
	// Event tells about the node.
	Event func(kind, reason, message string)
	// Listed is called with the IDs of all images, and when they were asked for; it may be nil.
	Listed func(ids []string, at time.Time)
}

// Collector removes images. It is safe for concurrent use.
type Collector struct {
	Config
	began time.Time

	mu      sync.Mutex // held during a collection
	records map[string]record
}

// New makes a collector that looks at nothing before Run.
func New(config Config) *Collector { return &Collector{Config: config, began: config.Clock.Now()} }

// Run collects now and then until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	ticker := c.Clock.NewTicker(period)
	defer ticker.Stop()
	failed := false
	for {
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Image garbage collection failed", "before", failed)
			if failed { // once may be before the disk can be measured
				c.Event(v1.EventTypeWarning, "ImageGCFailed", err.Error())
			}
			failed = true
		} else {
			failed = false
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// Collect removes images that were unused for too long, and more if the disk is too full. It only looks if the policy
// is to remove none.
func (c *Collector) Collect(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	list, err := c.detect(ctx, now)
	if err != nil || c.Policy.off() {
		return err
	}
	if _, err := c.free(ctx, c.Policy.expired(list, now, c.began), math.MaxInt64); err != nil {
		return err
	}
	if c.Policy.HighThreshold == 100 {
		return nil
	}
	disk, err := c.Engine.ImageFilesystem(ctx)
	if err != nil {
		return err
	}
	if disk.Capacity == 0 {
		err := errors.New("invalid capacity 0 on image filesystem")
		c.Event(v1.EventTypeWarning, "InvalidDiskCapacity", err.Error())
		return err
	}
	wanted := c.Policy.excess(disk)
	if wanted == 0 {
		return nil
	}
	freed, err := c.free(ctx, c.Policy.ripe(removable(c.records), now), wanted)
	if err != nil {
		return err
	}
	if freed < wanted {
		//lint:ignore ST1005 the text is upstream's
		err := fmt.Errorf("Failed to garbage collect required amount of images. Attempted to free %d bytes, "+
			"but only found %d bytes eligible to free.", wanted, freed)
		c.Event(v1.EventTypeWarning, "FreeDiskSpaceFailed", err.Error())
		return err
	}
	return nil
}

// DeleteUnused removes all images that may go.
func (c *Collector) DeleteUnused(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	list, err := c.detect(ctx, now)
	if err != nil {
		return err
	}
	_, err = c.free(ctx, c.Policy.ripe(list, now), math.MaxInt64)
	return err
}

// detect looks at images and containers, and returns the images that may go.
func (c *Collector) detect(ctx context.Context, now time.Time) ([]record, error) {
	pods, err := c.Engine.Pods(ctx) // first: an image that is pulled and used meanwhile is too young to go
	if err != nil {
		return nil, err
	}
	images, err := c.Engine.Images(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, pod := range pods {
		for i := range pod.Containers {
			used[pod.Containers[i].ImageID] = true
		}
	}
	if c.Mounted != nil {
		ids, err := c.Mounted()
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			used[id] = true
		}
	}
	pinned := map[string]bool{}
	for _, ref := range c.Pinned {
		if image, err := c.Engine.Image(ctx, ref); err == nil {
			pinned[image.ID] = true
		} else if !errors.Is(err, runtime.ErrNotFound) {
			return nil, err
		}
	}
	if c.Listed != nil {
		ids := make([]string, len(images))
		for i := range images {
			ids[i] = images[i].ID
		}
		c.Listed(ids, now)
	}
	c.records = observe(c.records, images, used, pinned, now, c.records == nil)
	return removable(c.records), nil
}

// free removes images of list in its order until enough bytes are freed, and returns how many were. An image that can't
// be removed keeps no other from it.
func (c *Collector) free(ctx context.Context, list []record, wanted int64) (int64, error) {
	var freed int64
	var failures []error
	for _, r := range list {
		if freed >= wanted {
			break
		}
		klog.FromContext(ctx).Info("Removing image to free bytes", "imageID", r.id, "size", r.size)
		if err := c.Engine.RemoveImage(ctx, r.id); err != nil {
			failures = append(failures, err)
			continue
		}
		delete(c.records, r.id)
		freed += r.size
	}
	if failure := utilerrors.NewAggregate(failures); failure != nil {
		return freed, fmt.Errorf("wanted to free %d bytes, but freed %d bytes space with errors in image deletion: %w",
			wanted, freed, failure)
	}
	return freed, nil
}
