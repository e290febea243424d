package pods

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/devices"
)

// allocateDevices begins to give a pod that is to be admitted its devices.
func (w *worker) allocateDevices(ctx context.Context) {
	w.state.allocating = true
	pod := w.state.pod
	w.begin(func(func(result)) result { return devicesAllocated{w.Devices.Allocate(ctx, pod)} })
}

// devicesAllocated tells that a pod has its devices, or why it can't have them.
type devicesAllocated struct{ err error }

func (r devicesAllocated) apply(ctx context.Context, w *worker) {
	s := &w.state
	s.allocating, s.decide = false, true
	switch {
	case ctx.Err() != nil:
	case r.err == nil:
		s.allocated = true
	case !s.admitted && s.rejected == nil && !s.gone:
		w.reject(&rejection{reason: "UnexpectedAdmissionError", never: true,
			message: fmt.Sprintf("Allocate failed due to %v, which is unexpected", r.err)})
	}
}

// devices returns what a container gets from drivers of devices; nil for nothing.
func (s *starter) devices(ctx context.Context, c *v1.Container) (*devices.Options, error) {
	var o *devices.Options
	if s.Devices != nil {
		var err error
		if o, err = s.Devices.Container(ctx, s.uid, c); err != nil {
			return nil, err
		}
	}
	if s.Claims == nil {
		return o, nil
	}
	claimed, err := s.Claims.Container(s.pod, c)
	if err != nil || len(claimed) == 0 {
		return o, err
	}
	if o == nil {
		o = &devices.Options{}
	}
	o.CDI = append(o.CDI, claimed...)
	return o, nil
}

// prepareClaims makes the claims of the pod ready, and tells in an event why they can't be.
func (s *starter) prepareClaims(ctx context.Context) error {
	if s.Claims == nil {
		return nil
	}
	err := s.Claims.Prepare(ctx, s.pod)
	if err != nil && ctx.Err() == nil {
		s.record(s.pod, v1.EventTypeWarning, "FailedPrepareDynamicResources",
			fmt.Sprintf("Failed to prepare dynamic resources: %v", err))
	}
	return err
}

// unprepareClaims begins to end an ended pod's use of its claims, and tells whether that is still to be done.
func (w *worker) unprepareClaims(ctx context.Context) bool {
	s := &w.state
	if w.Claims == nil || s.busy || !w.Claims.Uses(w.uid) {
		return false
	}
	if !s.unpreparing {
		s.unpreparing = true
		w.begin(func(func(result)) result { return claimsUnprepared{w.Claims.Unprepare(ctx, w.uid)} })
	}
	return true
}

// claimsUnprepared tells that the claims of an ended pod are unprepared, or why they can't be.
type claimsUnprepared struct{ err error }

func (r claimsUnprepared) apply(ctx context.Context, w *worker) {
	w.state.unpreparing = false
	if r.err == nil {
		w.state.decide = true
		return
	}
	if ctx.Err() == nil {
		klog.FromContext(ctx).Error(r.err, "Claims of the pod can't be unprepared yet, will be retried")
	}
	w.state.wakeAt = w.Clock.Now().Add(observeRetry)
}
