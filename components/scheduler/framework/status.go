package framework

import (
	"errors"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
)

// refusal turns a status into a refusal; nil for success.
func refusal(s *fwk.Status, point, plugin string) *cycle.Refusal {
	switch {
	case s.IsSuccess():
		return nil
	case s.IsRejected():
		return &cycle.Refusal{Reasons: s.Reasons(), Unresolvable: s.Code() == fwk.UnschedulableAndUnresolvable,
			Pending: s.Code() == fwk.Pending}
	default:
		return &cycle.Refusal{Err: fmt.Errorf("running %s plugin %q: %w", point, plugin, failure(s))}
	}
}

// failure is the error of a status that is neither success nor a refusal.
func failure(s *fwk.Status) error {
	if err := s.AsError(); err != nil {
		return err
	}
	return errors.New("unexpected status " + s.Code().String())
}

// failed turns a status into one of the commit; nil for success.
func failed(s *fwk.Status) *commit.Status {
	switch {
	case s.IsSuccess():
		return nil
	case s.IsRejected():
		return &commit.Status{Reasons: s.Reasons(), Unresolvable: s.Code() == fwk.UnschedulableAndUnresolvable,
			Pending: s.Code() == fwk.Pending}
	default:
		return &commit.Status{Err: failure(s)}
	}
}

// status is the reverse of refusal.
func status(r *cycle.Refusal, plugin string) *fwk.Status {
	switch {
	case r == nil:
		return nil
	case r.Err != nil:
		return fwk.AsStatus(r.Err).WithPlugin(plugin)
	case r.Unresolvable:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, r.Reasons...).WithPlugin(plugin)
	default:
		return fwk.NewStatus(fwk.Unschedulable, r.Reasons...).WithPlugin(plugin)
	}
}
