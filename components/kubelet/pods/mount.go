package pods

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// mounted is what came of an attempt to make the pod's volumes.
type mounted struct {
	paths map[string]volumes.Mounted
	at    time.Time
	err   error
}

func (r mounted) apply(_ context.Context, w *worker) {
	s := &w.state
	s.volumes, s.refreshed, s.unmounted = r.paths, r.at, r.err != nil
	if s.mountFailures++; r.err == nil {
		s.mountFailures = 0
	}
}

// mountDelay is how long to wait after the volumes could not be made so many times in a row.
func mountDelay(failures int) time.Duration {
	const first = 500 * time.Millisecond
	return min(first<<min(failures, 10), retryDelay)
}

// volumesRefreshed is the result of rewriting the contents of volumes.
type volumesRefreshed struct{ mounted }

func (r volumesRefreshed) apply(ctx context.Context, w *worker) {
	r.mounted.apply(ctx, w)
	w.state.release()
	w.state.decide = true // starts waited for it
}

// mount makes the pod's volumes. One operation of a pod does so at a time.
func (o *operations) mount(ctx context.Context, pod *v1.Pod) mounted {
	paths, err := o.Volumes.Mount(ctx, pod)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Volumes of the pod can't be made, will be retried", "pod", klog.KObj(pod))
		for _, err := range split(err) {
			o.record(pod, v1.EventTypeWarning, volumes.Reason(err), err.Error())
		}
	}
	return mounted{paths: paths, at: o.Clock.Now(), err: err}
}

// split takes apart the errors that errors.Join joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// mount makes the pod's volumes, and tells what came of it.
func (s *starter) mount(ctx context.Context) {
	if s.Volumes == nil {
		s.mounted = true
		return
	}
	r := s.operations.mount(ctx, s.pod)
	s.volumes, s.mounted = r.paths, r.err == nil
	s.tell(r)
}

// refreshVolumes starts to rewrite volumes when an object they project changed, or after a minute (tokens expire).
func (w *worker) refreshVolumes(ctx context.Context, pod *v1.Pod, now time.Time) {
	s := &w.state
	if w.Volumes == nil || s.busy || s.ending != nil || !s.stale && now.Sub(s.refreshed) < w.Resync {
		return
	}
	s.stale = false
	w.Objects.Register(pod)
	ctx = w.occupy(ctx)
	w.begin(func(func(result)) result { return volumesRefreshed{w.mount(ctx, pod)} })
}

// tearDown begins to take down the volumes of a pod that has ended and whose object stays, as that of a Job's pod: what
// it kept in an emptyDir is freed, and other volumes can be detached. Nothing else is done about the pod meanwhile.
func (w *worker) tearDown(ctx context.Context) {
	s := &w.state
	if w.Volumes == nil || s.busy || s.tornDown {
		return
	}
	s.cleaning, s.tornDown = true, true
	w.begin(func(func(result)) result { return tornDown{w.Volumes.TearDown(ctx, w.uid)} })
}

// tornDown tells that the volumes of an ended pod are no more, or why they can't be taken down.
type tornDown struct{ err error }

func (r tornDown) apply(ctx context.Context, w *worker) {
	s := &w.state
	s.cleaning, s.decide = false, true
	if r.err == nil {
		return
	}
	s.tornDown = false
	if ctx.Err() == nil {
		klog.FromContext(ctx).Error(r.err, "Volumes of the ended pod can't be torn down yet, will be retried")
	}
	s.decide, s.wakeAt = false, w.Clock.Now().Add(observeRetry)
}
