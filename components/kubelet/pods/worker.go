package pods

import (
	"context"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/plan"
)

// retryDelay is how long to wait before starting again what could not be started.
const retryDelay = 10 * time.Second

// worker syncs one pod. It takes turns: each takes events from the inbox and results of operations, and begins
// operations, each of which runs in a goroutine of its own. It never waits for the engine or the API. Only one turn is
// taken at a time, and it owns the state; between turns, when nothing is left in the inbox, a worker has no goroutine.
//
// Events and results lead to an observation of the pod in the engine (observe.go), and that to a decision (sync). The
// decision begins operations: start.go, stop.go, mount.go, hostports.go, resize.go, pod_limits.go and remove.go. What
// others read of the pod is published as a snapshot.
type worker struct {
	operations
	m         *Manager
	launched  bool // guarded by the manager's lock
	leaving   bool // the pod left its source; guarded by the manager's lock
	slot      int  // of resyncSlots, when the pod is synced without an event
	inbox     inbox
	published atomic.Pointer[snapshot]
	seen      time.Time // when the worker was launched

	state       state
	registered  bool        // in Objects
	running     int         // operations under way
	wakeTimer   clock.Timer // wakes the worker; nil before it was needed
	wakeTimerAt time.Time   // what it is set to; zero if it is not
}

// result is what came of an operation, or of a part of it. The worker applies it in its next turn.
type result interface {
	apply(ctx context.Context, w *worker)
}

// message is a result on its way to the worker.
type message struct {
	result
	last bool // the operation has ended
}

// newWorker makes a worker that does not run yet.
func newWorker(m *Manager, pod *v1.Pod) *worker {
	w := &worker{operations: operations{Config: &m.Config, uid: pod.UID}, m: m, state: newState(pod)}
	w.publish()
	return w
}

// begin runs an operation. Results passed to tell are applied while the operation continues.
func (w *worker) begin(operation func(tell func(result)) result) {
	w.running++
	go func() {
		last := operation(func(r result) { w.inbox.report(message{result: r}) })
		w.inbox.report(message{result: last, last: true})
	}()
}

// start lets the worker take its turns from now on, as long as ctx lasts.
func (w *worker) start(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("podUID", w.uid))
	w.inbox.open(func() { w.run(ctx) })
}

// run takes turns until there is nothing to take. Once the pod is gone or ctx has ended, the worker ends with the last
// of its operations.
func (w *worker) run(ctx context.Context) {
	for {
		work, ok := w.inbox.take()
		if !ok {
			return
		}
		if !w.ending(ctx) {
			w.process(ctx, &work)
			w.takeTurn(ctx)
			w.setWakeTimer()
		}
		for _, m := range work.results {
			if m.last {
				w.running--
			}
		}
		if w.ending(ctx) && w.running == 0 && w.inbox.close() {
			w.end()
			return
		}
	}
}

// ending tells that the worker takes no more turns.
func (w *worker) ending(ctx context.Context) bool { return w.state.over || ctx.Err() != nil }

// process takes in what has come.
func (w *worker) process(ctx context.Context, work *batch) {
	if !w.registered {
		w.registered = true
		w.m.Metrics.WorkerStarted(w.Clock.Since(w.seen))
		w.Objects.Register(w.state.pod)
	}
	w.receive(work.events)
	for _, m := range work.results {
		if w.ending(ctx) {
			return
		}
		m.apply(ctx, w)
		if w.state.over {
			w.m.forget(w.uid)
		}
	}
}

// end leaves nothing of the worker.
func (w *worker) end() {
	if w.wakeTimer != nil {
		w.wakeTimer.Stop()
	}
	w.m.probes.Forget(w.uid)
	w.Objects.Unregister(w.uid)
	w.m.wait.Done()
}

// setWakeTimer has the worker take a turn when its state says so.
func (w *worker) setWakeTimer() {
	at := w.state.wakeAt
	if at.Equal(w.wakeTimerAt) {
		return
	}
	if w.wakeTimer != nil {
		w.wakeTimer.Stop()
	}
	if w.wakeTimerAt = at; at.IsZero() {
		return
	}
	rest := max(at.Sub(w.Clock.Now()), 0)
	if w.wakeTimer == nil {
		w.wakeTimer = w.Clock.AfterFunc(rest, func() { w.inbox.post(func(e *events) { e.timerFired = true }) })
	} else {
		w.wakeTimer.Reset(rest)
	}
}

// receive takes in what happened outside.
func (w *worker) receive(e events) {
	s := &w.state
	s.observe = s.observe || e.observe
	if e.pod != nil && s.setPod(e.pod) {
		s.observe = true
	}
	// The answer to a write can be overtaken by the watch: what is older than what is known, such as the pod before it
	// was deleted, is dropped. Of the same version, that of the watch stays, which others have, too.
	if e.written != nil && !s.knows(e.written) && s.setPod(e.written) {
		s.observe = true
	}
	if e.gone != nil {
		s.pod, s.gone, s.observe = e.gone, true, true
	}
	if e.refresh {
		s.stale, s.observe = true, true
		clear(s.notBefore) // what was missing may be there now
	}
	if e.listed != nil && s.differs(e.listed) {
		s.observe = true
	}
	if e.evict != nil {
		w.evict(e.evict)
	}
	if e.timerFired {
		s.wakeAt, w.wakeTimerAt, s.observe = time.Time{}, time.Time{}, true
	}
	if e.resync { // what the engine has is told by events, and by the relist, which is more frequent
		s.decide, s.stale = true, true
	}
	if s.leaves() { // nothing is started from now on, whatever the engine is busy with
		s.decideEnd(w.Clock.Now())
		s.abortStart()
	}
}

// takeTurn advances, when few enough of the workers that take turns do.
func (w *worker) takeTurn(ctx context.Context) {
	if w.Turns != nil {
		w.Turns <- struct{}{}
		defer func() { <-w.Turns }()
	}
	w.advance(ctx)
}

// advance begins what has to be known before the next decision, or decides.
func (w *worker) advance(ctx context.Context) {
	s := &w.state
	if !s.wakeAt.IsZero() && !s.wakeAt.After(w.Clock.Now()) {
		s.wakeAt, s.observe = time.Time{}, true
	}
	if s.decide && !s.observing && !s.cleaning {
		if s.upToDate() {
			w.sync(ctx)
		} else {
			s.observe = true
		}
	}
	s.decide = s.decide && s.cleaning
	if s.observe && !s.observing && !s.cleaning {
		s.observe, s.observing = false, true
		w.observe(ctx)
	}
	w.publish()
}

// publish shows others what is known now.
func (w *worker) publish() {
	s := &w.state
	if !s.occupiesNode() {
		w.m.admission.release(w.uid)
	}
	if w.Devices != nil && !s.allocating && s.releasesDevices() {
		w.Devices.Release(w.uid)
	}
	if old := w.published.Load(); old != nil && old.pod == s.pod && old.status == s.status && old.gone == s.gone {
		return
	}
	w.published.Store(&snapshot{pod: s.pod, status: s.status, gone: s.gone})
}

// sync decides what to do about the pod as it was observed last, reports how it is, and begins what was decided.
func (w *worker) sync(ctx context.Context) {
	w.receive(w.inbox.takeEvents()) // a status that continues an old version would be sent again
	s, now := &w.state, w.Clock.Now()
	defer func(operation string) { w.m.Metrics.Synced(operation, w.Clock.Since(now)) }(s.operation())
	s.forgetRemoved()
	if !w.admit(ctx) {
		return // it will be decided when the node is known better
	}
	if why := s.exceedsDeadline(now); why != nil {
		s.rejected = why
		w.record(s.pod, v1.EventTypeNormal, why.reason, why.message)
	}
	s.decideEnd(now)
	w.allocate(now)
	pod := s.withAddresses(w.HostIPs)
	wanted := s.resources(pod, w.Builder)
	if w.setLimits(ctx, pod, wanted) {
		return
	}
	probed := w.m.probes.Sync(ctx, pod, &s.observed, s.ending != nil, s.starting)
	decision := plan.Compute(&plan.Input{
		Pod: pod, Observed: &s.observed, Now: now, Stop: s.ending, Busy: s.busy, Stopping: s.stopping,
		Backoff:   s.backoff,
		NotBefore: s.notBefore, Limits: w.Limits, Started: probed.Started, Unhealthy: probed.Unhealthy,
		Resources: wanted, Resizing: s.resize.tries, Renewed: s.resize.renewed,
	})
	if decision.Done && w.unprepareClaims(ctx) {
		return // claims are unprepared before others learn that the pod has ended
	}
	w.followResize(pod, wanted, now)
	s.abortStart()
	w.report(pod, &probed, &decision, now)
	w.act(ctx, pod, &decision)
	w.publish()
	if s.freed {
		s.freed = false
		w.m.wakeDeferred()
	}
	if !s.busy { // else a sandbox may come up that was not observed
		w.setHostPorts(ctx, pod)
	}
	s.wakeAt = s.nextObservation(&decision, now)
	switch {
	case decision.Done && s.leaves() && s.removable():
		w.remove(ctx)
	case decision.Done && !s.leaves():
		w.tearDown(ctx)
	case !decision.Done && s.sandboxRuns():
		w.refreshVolumes(ctx, pod, now)
	}
}

// operation is upstream's name for what the next sync is.
func (s *state) operation() string {
	switch {
	case s.ending != nil || s.leaves():
		return "terminating"
	case s.status == nil:
		return "create"
	}
	return "sync"
}

// act begins what was decided.
func (w *worker) act(ctx context.Context, pod *v1.Pod, decision *plan.Plan) {
	var starts []plan.Action
	for _, action := range decision.Actions {
		switch action.Kind {
		case plan.CreateSandbox, plan.StartContainer:
			starts = append(starts, action)
		case plan.ResizeContainer:
			w.resizeContainer(ctx, pod, action)
		case plan.StopContainer:
			w.stopContainer(ctx, pod, action)
		case plan.StopSandbox:
			w.stopSandbox(ctx, action)
		case plan.Remove:
			w.removeContainer(ctx, action)
		}
	}
	s := &w.state
	for _, id := range decision.Renewed {
		s.resize.renewed[id] = true
	}
	for name, backoff := range decision.Backoff {
		s.backoff[name] = backoff
	}
	if len(starts) > 0 && !s.busy {
		w.startAll(ctx, pod, starts)
	}
}

// occupy makes the pod busy and returns the context of the work, which a deletion ends.
func (w *worker) occupy(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	w.state.busy, w.state.abort = true, cancel
	return ctx
}

// release ends what occupy began.
func (s *state) release() {
	s.abort()
	s.busy, s.abort = false, nil
}

// abortStart ends a start under way of a pod that is ending.
func (s *state) abortStart() {
	if s.ending != nil && s.abort != nil {
		s.abort()
	}
}

// current is the pod as it is known, nil once it left the API. It is not to be changed.
func (w *worker) current() *v1.Pod { return w.published.Load().current() }

// orphan makes up the pod that containers without one belonged to.
func orphan(uid types.UID, namespace, name string) *v1.Pod {
	grace := int64(v1.DefaultTerminationGracePeriodSeconds)
	pod := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: &grace}}
	pod.UID, pod.Namespace, pod.Name = uid, namespace, name
	return pod
}
