package server

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// usage of a running container.
type usage struct {
	pod       *v1.Pod
	container string
	started   metav1.Time
	runtime.Usage
	swapLimit *uint64 // nil for none
}

// measure measures the containers that run as their pods' status has it, and tells whether all could be measured that
// still run.
func (s *Server) measure(ctx context.Context) ([]usage, bool) {
	var work []measured
	for _, pod := range s.Pods.List() {
		for _, cs := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if cs.State.Running != nil {
				work = append(work, measured{id: bareID(cs.ContainerID),
					usage: usage{pod: pod, container: cs.Name, started: cs.State.Running.StartedAt}})
			}
		}
	}
	measured, complete := s.measureAll(ctx, work, false)
	all := make([]usage, len(measured))
	for i := range measured {
		all[i] = measured[i].usage
	}
	return all, complete
}

// measureSwap adds what the control group of a container tells of its swap, which engines leave out.
func (s *Server) measureSwap(one *measured) {
	if s.Swap == nil || one.sandbox {
		return
	}
	swap := s.Swap(one.pod, one.id)
	one.swapLimit = swap.Limit
	if swap.Used != nil {
		one.SwapBytes = *swap.Used
	}
}

// measuring is how many containers are measured at once.
const measuring = 8

// measureAll measures what runs, its space on the disk only if asked for, and not more often than once a minute. A
// sandbox that an engine knows nothing of is left out.
func (s *Server) measureAll(ctx context.Context, work []measured, disks bool) (all []measured, complete bool) {
	meter, able := s.Engine.(runtime.Statistics)
	if !able {
		return nil, true
	}
	diskMeter, disked := s.Engine.(runtime.Disks)
	complete = true
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(measuring)
	for _, one := range work {
		group.Go(func() (err error) {
			one.Usage, err = meter.Stats(ctx, one.id)
			s.measureSwap(&one)
			if err == nil && disks && disked {
				var disk runtime.DiskUsage
				if disk, err = s.disks.of(ctx, diskMeter, s.Clock, one.id); err == nil {
					one.disk = &disk
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				complete = complete && errors.Is(err, runtime.ErrNotFound) // it ended meanwhile
				return nil
			}
			all = append(all, one)
			return nil
		})
	}
	_ = group.Wait() // failures are counted, not returned
	return all, complete
}
