// Package imagegc removes images that no container uses: the oldest ones when the disk is full, and those that were not
// used for long (https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images).
package imagegc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Policy tells when images go. Thresholds are percentages of the disk that are used.
type Policy struct {
	// HighThreshold is from where on images are removed, 100 is never; LowThreshold is down to where.
	HighThreshold, LowThreshold int32
	// MinimumAge is how long an image stays after it was found.
	MinimumAge time.Duration
	// MaximumAge is how long an image may be unused, however empty the disk is; 0 is for ever.
	MaximumAge time.Duration
}

// Validate tells what is wrong with a policy; the errors are upstream's.
func (p Policy) Validate() error {
	switch {
	case p.HighThreshold < 0 || p.HighThreshold > 100:
		return fmt.Errorf("invalid configuration: imageGCHighThresholdPercent (--image-gc-high-threshold) %v must be "+
			"between 0 and 100, inclusive", p.HighThreshold)
	case p.LowThreshold < 0 || p.LowThreshold > 100:
		return fmt.Errorf("invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) %v must be "+
			"between 0 and 100, inclusive", p.LowThreshold)
	case p.LowThreshold >= p.HighThreshold:
		return fmt.Errorf("invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) %v must be "+
			"less than imageGCHighThresholdPercent (--image-gc-high-threshold) %v", p.LowThreshold, p.HighThreshold)
	case p.MaximumAge < 0:
		return fmt.Errorf("invalid configuration: imageMaximumGCAge %v must not be negative", p.MaximumAge)
	case p.MaximumAge > 0 && p.MaximumAge <= p.MinimumAge:
		return fmt.Errorf("invalid configuration: imageMaximumGCAge %v must be greater than imageMinimumGCAge %v",
			p.MaximumAge, p.MinimumAge)
	}
	return nil
}

// off tells that no image is ever removed by itself.
func (p Policy) off() bool { return p.HighThreshold == 100 && p.MaximumAge == 0 }

// record is what is remembered of an image of the node.
type record struct {
	id              string
	found, lastUsed time.Time // lastUsed is zero if no use of it was seen
	size            int64
	kept            bool // it is in use, pinned or loaded
}

// observe brings records up to date with the images that there are. used and pinned hold IDs of images. What is new was
// found now, except in the first look at images that were there before this kubelet.
func observe(known map[string]record, images []runtime.Image, used, pinned map[string]bool, now time.Time,
	first bool) map[string]record {
	records := make(map[string]record, len(images))
	for i := range images {
		image := &images[i]
		r, old := known[image.ID]
		if !old {
			r = record{id: image.ID, found: now}
			if first {
				r.found = time.Time{}
			}
		}
		if used[image.ID] {
			r.lastUsed = now
		}
		r.size, r.kept = image.SizeBytes, used[image.ID] || pinned[image.ID] || loaded(image)
		records[image.ID] = r
	}
	return records
}

// loaded tells that an image came from an archive: no registry is known to have it, so that nothing could pull it
// again.
func loaded(image *runtime.Image) bool {
	return !slices.ContainsFunc(image.Digests, func(digest string) bool { return !strings.HasPrefix(digest, "<none>") })
}

// removable lists images that may go, those that were used the longest ago first.
func removable(records map[string]record) []record {
	var list []record
	for _, r := range records {
		if !r.kept {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b record) int {
		return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.found.Compare(b.found), cmp.Compare(a.id, b.id))
	})
	return list
}

// expired are those of list that were unused for too long. Nothing is before the kubelet has run for as long, as it
// does not know of uses before.
func (p Policy) expired(list []record, now, began time.Time) []record {
	if p.MaximumAge == 0 || now.Sub(began) <= p.MaximumAge {
		return nil
	}
	var old []record
	for _, r := range list {
		if now.Sub(r.lastUsed) > p.MaximumAge && now.Sub(r.found) >= p.MinimumAge {
			old = append(old, r)
		}
	}
	return old
}

// excess is how many bytes are to be freed.
func (p Policy) excess(disk runtime.Filesystem) int64 {
	available := min(disk.Available, disk.Capacity)
	if used := 100 - available*100/disk.Capacity; used < int64(p.HighThreshold) {
		return 0
	}
	return max(0, disk.Capacity*int64(100-p.LowThreshold)/100-available)
}

// ripe are those of list that are on the node for long enough.
func (p Policy) ripe(list []record, now time.Time) []record {
	return slices.DeleteFunc(slices.Clone(list), func(r record) bool { return now.Sub(r.found) < p.MinimumAge })
}
