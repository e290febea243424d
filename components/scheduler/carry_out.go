package scheduler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// attempt is one try to schedule a pod, after its decision.
type attempt struct {
	item      *queue.Item
	pod       *snapshot.Pod // of item when it was popped
	profile   *profile
	decision  *cycle.Decision
	placement *commit.Placement // nil without a node
	waits     bool              // for permission
	status    *commit.Status    // of a failure to reserve, or a refused permission
	began     time.Time
	measure   bool // each plug-in
}

// reserve has the node of the decision reserved and permitted; the caller holds the state. The snapshot has the
// pod on the node afterwards, unless the attempt failed.
func (s *Scheduler) reserve(ctx context.Context, a *attempt) {
	a.placement = &commit.Placement{Pod: a.pod, Node: a.decision.Node, Kept: a.decision.Kept, State: a.decision.State,
		Measure:  a.measure,
		Snapshot: func(do func(*snapshot.Snapshot)) { do(s.snapshot) },
		Record: func(kind, reason, action, note string) {
			s.Recorder(a.pod.Obj.Spec.SchedulerName).Eventf(a.pod.Obj, nil, kind, reason, action, "%s", note)
		}}
	if a.status = a.profile.commit.Reserve(ctx, a.placement); a.status == nil {
		a.waits, a.status = a.profile.commit.Permit(ctx, a.placement)
	}
	if a.status != nil {
		a.profile.commit.Unreserve(ctx, a.placement)
		return
	}
	s.snapshot.Assume(a.pod, a.decision.Node)
	s.nominations.remove(a.pod.UID())
	a.placement.Snapshot = s.locked
}

// carryOut binds the pod, now or after what must be waited for. It does not wait itself.
func (s *Scheduler) carryOut(ctx context.Context, a *attempt) {
	prepares, status := a.profile.commit.PreFlight(ctx, a.placement)
	switch {
	case status != nil:
		s.writes.Go(func() error {
			s.giveUp(ctx, a, status)
			return nil
		})
	case a.waits || prepares: // for longer than one of the few writers may
		s.bindings.Go(func() {
			s.bindingChanged(1)
			defer s.bindingChanged(-1)
			s.prepare(ctx, a, prepares)
		})
	default:
		s.writes.Go(func() error {
			s.bindingChanged(1)
			defer s.bindingChanged(-1)
			s.bind(ctx, a)
			return nil
		})
	}
}

// prepare waits for permission, runs the PreBind plug-ins and binds the pod.
func (s *Scheduler) prepare(ctx context.Context, a *attempt, prepares bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	handles, uid := s.config.handles, a.pod.UID()
	handles.AddPodInPreBind(uid, cancel)
	defer handles.RemovePodInPreBind(uid)
	s.expect(ctx, a)
	if status := a.profile.commit.WaitOnPermit(ctx, a.placement); status != nil {
		s.giveUp(ctx, a, status)
		return
	}
	if prepares {
		if status := a.profile.commit.PreBind(ctx, a.placement); status != nil {
			s.giveUp(ctx, a, status)
			return
		}
	}
	if !handles.MarkPrebound(uid) {
		s.giveUp(ctx, a, commit.Failed("", context.Cause(ctx)))
		return
	}
	s.bind(ctx, a)
}

// expect writes the node to status.nominatedNodeName of a pod whose binding takes longer (KEP-5278).
func (s *Scheduler) expect(ctx context.Context, a *attempt) {
	if a.pod.Obj.Status.NominatedNodeName == a.placement.Node {
		return
	}
	s.patchStatus(ctx, a.pod.Obj, nominationPatch(a.pod.Obj, a.placement.Node))
}

// bind has the pod bound by the Bind plug-ins.
func (s *Scheduler) bind(ctx context.Context, a *attempt) {
	if status := a.profile.commit.Bind(ctx, a.placement); status != nil {
		s.giveUp(ctx, a, status)
		return
	}
	obj, d, profile := a.pod.Obj, a.decision, a.pod.Obj.Spec.SchedulerName
	now := s.config.Clock.Now()
	s.metrics.attempt("scheduled", profile, now.Sub(a.began))
	if a.item.Flushed() {
		s.metrics.late.Inc()
	}
	s.metrics.attempts.Observe(float64(a.item.Attempts))
	s.metrics.sli.WithLabelValues(attemptsLabel(a.item.Attempts)).Observe(now.Sub(a.item.Since).Seconds())
	s.queue.Done(a.item)
	s.explanations.forget(obj.UID)
	klog.FromContext(ctx).V(2).Info("Bound pod", "pod", klog.KObj(obj), "node", d.Node, "evaluatedNodes", d.Evaluated,
		"feasibleNodes", d.Feasible)
	s.Recorder(profile).Eventf(obj, nil, v1.EventTypeNormal, "Scheduled", "Binding",
		"Successfully assigned %v/%v to %v", obj.Namespace, obj.Name, d.Node)
	a.profile.commit.PostBind(ctx, a.placement)
}

// giveUp takes an assumption back that could not be carried out.
func (s *Scheduler) giveUp(ctx context.Context, a *attempt, status *commit.Status) {
	a.profile.commit.Unreserve(ctx, a.placement)
	s.state.change(func() {
		if s.snapshot.Forget(a.pod.UID()) {
			s.queue.Move(queue.Event{Kind: queue.PodRemoved, OldPod: a.pod})
		}
	})
	s.fail(ctx, a, status)
}

// fail tells why an attempt failed, and gives the pod back.
func (s *Scheduler) fail(ctx context.Context, a *attempt, status *commit.Status) {
	pod, profile := a.pod, a.pod.Obj.Spec.SchedulerName
	gone := s.queue.Deleted(a.item) || s.Context().Err() != nil
	s.explanations.keep(explainStatus(a, s.hints, status, s.config.Clock.Now()))
	switch {
	case status.Err != nil:
		s.metrics.attempt("error", profile, s.config.Clock.Since(a.began))
		if !gone {
			klog.FromContext(ctx).Error(status.Err, "Pod could not be bound and will be tried again", "pod",
				klog.KObj(pod.Obj))
			s.tell(ctx, pod, v1.PodReasonSchedulerError, status.Message(), nil)
		}
		s.queue.Retry(a.item)
	case status.Preempted:
		s.queue.Requeue(a.item, nil, true)
	default:
		s.metrics.attempt("unschedulable", profile, s.config.Clock.Since(a.began))
		if !gone {
			klog.FromContext(ctx).V(2).Info("Pod was refused its node", "pod", klog.KObj(pod.Obj), "node",
				a.decision.Node, "plugin", status.Plugin, "reason", status.Message())
			s.tell(ctx, pod, v1.PodReasonUnschedulable, status.Message(), nil)
		}
		var refusedBy []string
		if status.Plugin != "" {
			refusedBy = []string{status.Plugin}
		}
		s.queue.Requeue(a.item, refusedBy, status.Pending)
	}
	s.forgetIfGone(a)
}

// forgetIfGone drops the explanation of a pod that went in flight.
func (s *Scheduler) forgetIfGone(a *attempt) {
	if s.queue.Deleted(a.item) {
		s.explanations.forget(a.pod.UID())
	}
}
