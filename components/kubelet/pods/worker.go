package pods

import (
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/probes"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/status"
)

// retryDelay is how long to wait before starting again what could not be started.
const retryDelay = 10 * time.Second

// worker looks after one pod. Its goroutine observes, plans and reports; what takes time (starting, stopping) runs
// in goroutines of its own, which note what they did under the lock and poke the worker.
type worker struct {
	m        *Manager
	uid      types.UID
	wake     chan struct{}
	launched bool // guarded by the manager's lock
	logger   klog.Logger

	mu       sync.Mutex
	pod      *v1.Pod // newest version seen; a made-up one for containers that nobody asked for
	gone     bool    // it left the API
	admitted bool
	rejected *rejection
	ending   *plan.Stop
	status   *v1.PodStatus // last computed
	stale    bool          // volumes are to be rewritten

	busy      bool
	abort     context.CancelFunc // ends the start under way
	starting  map[string]bool    // containers whose start is complete only after their postStart hook
	stopping  map[string]time.Time
	failures  map[string]plan.Waiting
	notBefore map[string]time.Time
	backoff   map[string]plan.Backoff
	prepared  map[string]prepared // by name of container
	volumes   map[string]string
	messages  map[string]string
	refreshed time.Time
	unmounted bool // the last attempt to make volumes failed
	resize    resize
	freed     bool // other pods may have what this one no longer needs
	// deeds counts what operations finished: what was observed before one finished is not true any more.
	deeds int
	ops   sync.WaitGroup
}

func newWorker(m *Manager, uid types.UID) *worker {
	return &worker{
		m: m, uid: uid, wake: make(chan struct{}, 1),
		starting: map[string]bool{}, stopping: map[string]time.Time{}, failures: map[string]plan.Waiting{},
		resize:    resize{tries: map[string]time.Time{}, renewed: map[string]bool{}},
		notBefore: map[string]time.Time{}, backoff: map[string]plan.Backoff{}, messages: map[string]string{}, prepared: map[string]prepared{},
	}
}

func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// set takes in a version of the pod and tells whether it asks for a look.
func (w *worker) set(pod *v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.pod
	w.pod = pod
	if old == nil {
		return true
	}
	sameStatus := w.status != nil && equality.Semantic.DeepEqual(&pod.Status, w.status)
	sameMeta := pod.Generation == old.Generation && (pod.DeletionTimestamp == nil) == (old.DeletionTimestamp == nil) &&
		equality.Semantic.DeepEqual(pod.DeletionGracePeriodSeconds, old.DeletionGracePeriodSeconds) &&
		equality.Semantic.DeepEqual(pod.Labels, old.Labels) && equality.Semantic.DeepEqual(pod.Annotations, old.Annotations)
	if !equality.Semantic.DeepEqual(pod.Labels, old.Labels) || !equality.Semantic.DeepEqual(pod.Annotations, old.Annotations) {
		w.stale = true // the downward API shows them
	}
	return !sameStatus || !sameMeta || !equality.Semantic.DeepEqual(&pod.Spec, &old.Spec)
}

// knowsNewer tells that a version of the pod that came after this one was seen.
func (w *worker) knowsNewer(pod *v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pod == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, w.pod.ResourceVersion)
	return err == nil && order < 0
}

func (w *worker) setGone(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pod, w.gone = pod, true
}

func (w *worker) refresh() {
	w.mu.Lock()
	w.stale = true
	clear(w.notBefore) // what was missing may be there now
	w.mu.Unlock()
	w.poke()
}

func (w *worker) current() *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil
	}
	pod := w.pod
	if pod != nil && w.status != nil {
		pod = pod.DeepCopy()
		pod.Status = *w.status.DeepCopy()
	}
	return pod
}

// claims returns the pod if it was admitted and has not ended. One that left the API claims nothing, though it may still
// be ending: the scheduler, and the client that deleted it by force, count on its place.
func (w *worker) claims() *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pod == nil || w.gone || !w.admitted || w.rejected != nil {
		return nil
	}
	phase := w.pod.Status.Phase
	if w.status != nil {
		phase = w.status.Phase
	}
	if ended(phase) {
		return nil
	}
	if w.resize.allocated == nil || w.resize.settled(w.pod) {
		return w.pod
	}
	pod := w.pod.DeepCopy()
	w.resize.allocate(pod)
	return pod
}

func (w *worker) run(ctx context.Context) {
	w.logger = klog.FromContext(ctx).WithValues("podUID", w.uid)
	w.mu.Lock()
	pod := w.pod
	w.mu.Unlock()
	w.m.Objects.Register(pod)
	defer func() {
		w.ops.Wait()
		w.m.probes.Forget(w.uid)
		w.m.Objects.Unregister(w.uid)
	}()
	for {
		next, done := w.look(ctx)
		if done {
			w.m.forget(w.uid)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-w.m.Clock.After(next):
		}
	}
}

// look is one turn: observe, plan, act, report. It returns when to look again, and whether the pod is over.
func (w *worker) look(ctx context.Context) (time.Duration, bool) {
	observed, err := w.observe(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.logger.Error(err, "Pod can't be observed, will be retried")
		}
		return time.Second, false
	}
	now := w.m.Clock.Now()
	w.forgetRemoved(&observed)
	w.admit(ctx, &observed)
	w.decideEnd(now)
	w.settle(now)
	pod := w.withAddresses(&observed)
	w.resize.allocate(pod)
	wanted := w.wanted(pod)
	state := w.m.probes.Sync(ctx, pod, &observed, w.ending != nil, w.starting)
	decision := plan.Make(&plan.Input{
		Pod: pod, Observed: &observed, Now: now, Stop: w.ending, Busy: w.busy, Stopping: w.stopping, Backoff: w.backoff,
		NotBefore: w.notBefore, Limits: w.m.Limits, Started: state.Started, Unhealthy: state.Unhealthy,
		Resources: wanted, Resizing: w.resize.tries, Renewed: w.resize.renewed,
	})
	w.followResize(pod, &observed, wanted, now)
	if w.ending != nil && w.abort != nil {
		w.abort()
	}
	w.readMessages(&observed)
	w.report(pod, &observed, &state, &decision, now)
	gone, deleted, final := w.gone, w.pod.DeletionTimestamp != nil, w.pod
	w.act(ctx, pod, &observed, &decision)
	busy, freed := w.busy, w.freed
	w.freed = false
	w.mu.Unlock()
	if freed {
		w.m.pokeDeferred()
	}
	if !busy { // else a sandbox may come up that was not observed
		w.setHostPorts(ctx, pod, &observed)
	}

	if decision.Done && !busy && (gone || deleted) {
		return w.finish(ctx, &observed, final, gone)
	}
	if sandbox := observed.Sandbox(); sandbox != nil && sandbox.State == runtime.Running && !decision.Done {
		w.freshen(ctx, pod, now)
	}
	return w.next(&decision, now), false
}

// observe asks the engine, and returns with the lock held unless there is an error. It asks again when an operation
// finished meanwhile: planned from before it, a container would be started or stopped twice.
func (w *worker) observe(ctx context.Context) (runtime.Pod, error) {
	for {
		w.mu.Lock()
		before := w.deeds
		w.mu.Unlock()
		observed, err := w.m.Engine.Pod(ctx, w.uid)
		if err != nil {
			return observed, err
		}
		w.mu.Lock()
		if w.deeds == before {
			return observed, nil
		}
		w.mu.Unlock()
	}
}

// forgetRemoved drops what is noted of containers that are no more, however they were removed; it is called with the
// lock held.
func (w *worker) forgetRemoved(observed *runtime.Pod) {
	there := map[string]bool{}
	for i := range observed.Containers {
		there[observed.Containers[i].ID] = true
	}
	maps.DeleteFunc(w.resize.renewed, func(id string, _ bool) bool { return !there[id] })
	maps.DeleteFunc(w.messages, func(id, _ string) bool { return !there[id] })
	maps.DeleteFunc(w.resize.tries, func(id string, at time.Time) bool { return !there[id] && !at.IsZero() })
}

// next is how long the worker may sleep.
func (w *worker) next(decision *plan.Plan, now time.Time) time.Duration {
	delay := w.m.Resync
	if !decision.WakeAt.IsZero() {
		delay = min(delay, max(decision.WakeAt.Sub(now), 10*time.Millisecond))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if deadline, ok := w.deadline(); ok && w.ending == nil {
		delay = min(delay, max(deadline.Sub(now), 10*time.Millisecond))
	}
	if w.resize.unset && w.ending == nil {
		delay = min(delay, retryDelay)
	}
	return delay
}

// finish removes all traces of an ended pod, and the API object last of all.
func (w *worker) finish(ctx context.Context, observed *runtime.Pod, pod *v1.Pod, gone bool) (time.Duration, bool) {
	if err := w.cleanUp(ctx, observed); err != nil {
		if ctx.Err() == nil {
			w.logger.Error(err, "Pod can't be cleaned up yet, will be retried")
		}
		return time.Second, false
	}
	if gone {
		w.m.Status.Forget(w.uid)
		return 0, true
	}
	w.m.Status.Delete(pod)
	return w.m.Resync, false
}

func (w *worker) cleanUp(ctx context.Context, observed *runtime.Pod) error {
	for i := range observed.Containers {
		if err := w.m.Engine.Remove(ctx, observed.Containers[i].ID); err != nil {
			return err
		}
	}
	for i := range observed.Sandboxes {
		if err := w.m.Engine.Remove(ctx, observed.Sandboxes[i].ID); err != nil {
			return err
		}
	}
	if w.m.HostPorts != nil {
		if err := w.m.HostPorts.Forget(ctx, w.uid); err != nil {
			return err
		}
	}
	w.m.probes.Forget(w.uid)
	w.m.Images.Forget(w.uid)
	if w.m.Volumes != nil {
		if err := w.m.Volumes.Remove(w.uid); err != nil {
			return err
		}
	}
	return w.m.Cgroups.Remove(w.uid)
}

// withAddresses returns a copy of the pod that knows its addresses; it is called with the lock held.
func (w *worker) withAddresses(observed *runtime.Pod) *v1.Pod {
	pod := w.pod.DeepCopy()
	pod.Status.HostIP, pod.Status.HostIPs = "", nil
	for i, ip := range w.m.HostIPs {
		if i == 0 {
			pod.Status.HostIP = ip
		}
		pod.Status.HostIPs = append(pod.Status.HostIPs, v1.HostIP{IP: ip})
	}
	sandbox := observed.Sandbox()
	if sandbox == nil || sandbox.State != runtime.Running {
		return pod
	}
	ips := sandbox.IPs
	if pod.Spec.HostNetwork {
		ips = w.m.HostIPs
	}
	pod.Status.PodIP, pod.Status.PodIPs = "", nil
	for i, ip := range ips {
		if i == 0 {
			pod.Status.PodIP = ip
		}
		pod.Status.PodIPs = append(pod.Status.PodIPs, v1.PodIP{IP: ip})
	}
	return pod
}

// report computes the status and hands it to the writer; it is called with the lock held.
func (w *worker) report(pod *v1.Pod, observed *runtime.Pod, state *probes.State, decision *plan.Plan, now time.Time) {
	waiting := map[string]plan.Waiting{}
	for name, why := range w.failures {
		if run := observed.Container(name); run != nil && run.State == runtime.Running && !w.busy {
			delete(w.failures, name) // it was started after all: the engine's answer was lost
		} else if !decision.Ended[name] {
			waiting[name] = why
		}
	}
	for name, why := range decision.Waiting {
		waiting[name] = why
		if w.failures[name] != why {
			w.failures[name] = why
			if c := containerOf(pod, name); c != nil {
				w.m.recordContainer(pod, c, v1.EventTypeWarning, "BackOff", "Back-off restarting failed container "+name+" in pod "+pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")")
			}
		}
	}
	in := &status.Input{
		Pod: pod, Observed: observed, Now: now, Runtime: w.m.RuntimeName, Previous: w.previous(), Waiting: waiting,
		Starting: w.starting, Started: state.Started, Ready: state.Ready, Messages: w.messages, HostIPs: w.m.HostIPs,
		Done: decision.Done, Unmounted: w.waitsForVolumes(observed),
		Resizes: w.resize.conditions(), Anew: decision.Anew, Restarting: decision.Pending,
	}
	if sandbox := observed.Sandbox(); sandbox != nil && sandbox.ID == w.resize.sandbox {
		in.Limits = &w.resize.limits
	}
	if w.rejected != nil {
		in.Reason, in.Message, in.Rejected = w.rejected.reason, w.rejected.told(), w.rejected.never
	}
	computed := status.Compute(in)
	w.freed = w.freed || ended(computed.Phase) && (w.status == nil || !ended(w.status.Phase))
	w.status = &computed
	if !w.gone {
		w.m.Status.Set(w.pod, &computed)
	}
}

// waitsForVolumes tells that no container was started yet because volumes are not there; it is called with the lock
// held. Volumes of a pod that runs may fail to be refreshed, which takes nothing from it.
func (w *worker) waitsForVolumes(observed *runtime.Pod) bool {
	return w.m.Volumes != nil && len(observed.Containers) == 0 && (w.volumes == nil || w.unmounted)
}

// previous is the status that the new one continues: the API server's, with what it does not have yet.
func (w *worker) previous() *v1.PodStatus {
	if w.status == nil {
		return &w.pod.Status
	}
	previous := w.status.DeepCopy()
	for _, c := range w.pod.Status.Conditions {
		if !status.Owns(c.Type) {
			previous.Conditions = status.Replace(previous.Conditions, c)
		}
	}
	return previous
}
