package pods

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// act begins what was decided; it is called with the lock held.
func (w *worker) act(ctx context.Context, pod *v1.Pod, observed *runtime.Pod, decision *plan.Plan) {
	var starts []plan.Action
	for _, action := range decision.Actions {
		switch action.Kind {
		case plan.CreateSandbox, plan.StartContainer:
			starts = append(starts, action)
		case plan.ResizeContainer:
			w.resizeContainer(ctx, pod, observed, action)
		case plan.StopContainer:
			w.stopContainer(ctx, pod, observed, action)
		case plan.StopSandbox:
			w.stopSandbox(ctx, action)
		case plan.Remove:
			w.remove(ctx, action)
		}
	}
	for _, id := range decision.Renewed {
		w.resize.renewed[id] = true
	}
	for name, backoff := range decision.Backoff {
		w.backoff[name] = backoff
	}
	if len(starts) == 0 || w.busy {
		return
	}
	startCtx, cancel := context.WithCancel(ctx)
	w.busy, w.abort = true, cancel
	for _, action := range starts {
		if c := containerOf(pod, action.Name); c != nil && c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
			w.starting[action.Name] = true // others are reported as soon as the engine says that they run
		}
	}
	sandbox := observed.Sandbox()
	w.ops.Go(func() {
		defer cancel()
		for _, action := range starts {
			if startCtx.Err() != nil {
				break
			}
			if action.Kind == plan.CreateSandbox {
				w.createSandbox(startCtx, pod, action.Attempt, fresh(observed, action))
				continue
			}
			w.start(startCtx, pod, sandbox, action)
			w.mu.Lock()
			w.deeds++
			delete(w.starting, action.Name)
			w.mu.Unlock()
			w.poke() // each container is reported as soon as it runs
		}
		w.mu.Lock()
		w.deeds++
		w.busy, w.abort = false, nil
		clear(w.starting)
		w.mu.Unlock()
		w.poke()
	})
}

// fail notes why a container (or, with name "", the sandbox) could not be started.
func (w *worker) fail(name string, why plan.Waiting, retryAt time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if why.Reason != "" {
		w.failures[name] = why
	}
	w.notBefore[name] = retryAt
}

// createSandbox makes the volumes and the sandbox at the same time, as neither needs the other; the containers of a
// fresh pod are made while the sandbox starts.
func (w *worker) createSandbox(ctx context.Context, pod *v1.Pod, attempt int, fresh bool) {
	if !pod.Spec.HostNetwork && !w.networkReady(ctx, pod) {
		return
	}
	if attempt > 0 {
		w.m.record(pod, v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	var mounting, preparing sync.WaitGroup
	mounting.Go(func() { w.mount(ctx, pod) })
	var id string
	sandbox, err := w.m.Builder.Sandbox(pod, attempt)
	if err == nil {
		if fresh {
			sandbox.Created = func(id string) {
				preparing.Wait() // a sandbox is made twice where the first can't be started
				preparing.Go(func() {
					mounting.Wait()
					w.prepare(ctx, pod, id)
				})
			}
		}
		id, err = w.m.Engine.CreateSandbox(ctx, sandbox)
	}
	mounting.Wait()
	preparing.Wait()
	if err == nil {
		err = w.openHostPorts(ctx, sandbox, id)
	}
	if err != nil && ctx.Err() == nil {
		w.logger.Error(err, "Sandbox of the pod can't be made, will be retried", "pod", klog.KObj(pod), "attempt", attempt)
		w.m.record(pod, v1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		w.fail("", plan.Waiting{}, w.m.Clock.Now().Add(retryDelay))
	}
}

// networkReady waits for the pod network, and tells that it does.
func (w *worker) networkReady(ctx context.Context, pod *v1.Pod) bool {
	select {
	case <-w.m.NetworkReady:
		return true
	default:
	}
	w.m.record(pod, v1.EventTypeWarning, "NetworkNotReady", "network is not ready: the node has no pod network yet")
	select {
	case <-w.m.NetworkReady:
		return true
	case <-ctx.Done():
		return false
	}
}

// mount makes the pod's volumes and tells whether all are there.
func (w *worker) mount(ctx context.Context, pod *v1.Pod) bool {
	if w.m.Volumes == nil {
		return true
	}
	paths, err := w.m.Volumes.Mount(ctx, pod)
	if err != nil && ctx.Err() == nil {
		w.logger.Error(err, "Volumes of the pod can't be made, will be retried", "pod", klog.KObj(pod))
		w.m.record(pod, v1.EventTypeWarning, "FailedMount", err.Error())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unmounted = err != nil
	w.volumes, w.refreshed = paths, w.m.Clock.Now()
	return err == nil
}

// freshen writes volumes anew when something they show changed, or a minute passed (tokens grow old).
func (w *worker) freshen(ctx context.Context, pod *v1.Pod, now time.Time) {
	w.mu.Lock()
	due := w.m.Volumes != nil && !w.busy && (w.stale || now.Sub(w.refreshed) >= w.m.Resync)
	if due {
		w.stale = false
	}
	ending := w.ending != nil
	w.mu.Unlock()
	if !due || ending {
		return
	}
	w.m.Objects.Register(pod)
	w.mount(ctx, pod)
}

// start brings one container up. pod has its addresses.
func (w *worker) start(ctx context.Context, pod *v1.Pod, sandbox *runtime.Sandbox, action plan.Action) {
	c := containerOf(pod, action.Name)
	why, err := w.tryStart(ctx, pod, c, sandbox, action.Attempt)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		w.mu.Lock()
		w.deeds++ // with what follows: a look at the run before this one must not find that it waits
		delete(w.failures, c.Name)
		delete(w.notBefore, c.Name)
		w.mu.Unlock()
		return
	}
	w.logger.Error(err, "Container can't be started", "pod", klog.KObj(pod), "container", c.Name, "attempt", action.Attempt, "reason", why)
	retryAt := w.m.Clock.Now().Add(retryDelay)
	var image *images.Error
	switch {
	case errors.As(err, &image):
		if at := w.m.Images.RetryAt(w.uid, c.Image); !at.IsZero() {
			retryAt = at
			if image.Reason == "ErrImagePull" { // soon after, the status tells that it waits
				retryAt = w.m.Clock.Now().Add(min(time.Second, at.Sub(w.m.Clock.Now())))
			}
		}
	case why == "RunContainerError" && !w.untouched(ctx, c.Name):
		retryAt = time.Time{} // the container that did not start backs off as one that crashed
	}
	if image == nil && why != "" && why != "PostStartHookError" {
		w.m.recordContainer(pod, c, v1.EventTypeWarning, "Failed", "Error: "+err.Error())
	}
	w.fail(c.Name, plan.Waiting{Reason: why, Message: err.Error()}, retryAt)
}

// untouched tells that the engine did not get as far as starting a container: it doesn't count as one that ended.
func (w *worker) untouched(ctx context.Context, name string) bool {
	observed, err := w.m.Engine.Pod(ctx, w.uid)
	if err != nil {
		return true
	}
	run := observed.Container(name)
	return run == nil || run.State == runtime.Created
}

// tryStart does the steps; the reason it returns with an error is the one a status reports.
func (w *worker) tryStart(ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtime.Sandbox, attempt int) (string, error) {
	id, ok := w.ready(c.Name, sandbox.ID, attempt)
	if ok {
		if err := w.m.Builder.Hosts(pod); err != nil { // now the address is known
			return "CreateContainerConfigError", err
		}
	} else {
		var reason string
		var err error
		if id, reason, err = w.make(ctx, pod, c, sandbox, attempt); err != nil {
			return reason, err
		}
	}
	if err := w.m.Engine.Start(ctx, id); err != nil {
		return "RunContainerError", err
	}
	w.m.recordContainer(pod, c, v1.EventTypeNormal, "Started", "Container started")
	return w.postStart(ctx, pod, c, id)
}

var errVolumes = errors.New("volumes are not ready")

// mounted returns the paths of the volumes. They are made first by a kubelet that was restarted, or if they could not
// be made before.
func (w *worker) mounted(ctx context.Context, pod *v1.Pod) (map[string]string, bool) {
	if w.m.Volumes == nil {
		return nil, true
	}
	w.mu.Lock()
	paths, ok := w.volumes, w.volumes != nil && !w.unmounted
	w.mu.Unlock()
	if ok {
		return paths, true
	}
	ok = w.mount(ctx, pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.volumes, ok
}

func imageReason(err error) string {
	var failure *images.Error
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return "ImageInspectError"
}

// postStart runs the hook; a container whose hook fails is killed.
func (w *worker) postStart(ctx context.Context, pod *v1.Pod, c *v1.Container, id string) (string, error) {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil || w.m.Builder.Virtual {
		return "", nil
	}
	err := w.m.Hooks.Lifecycle(ctx, hooks.Target{ID: id, PodIP: pod.Status.PodIP, Container: c}, c.Lifecycle.PostStart)
	if err == nil || ctx.Err() != nil {
		return "", nil
	}
	w.m.recordContainer(pod, c, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	w.m.recordContainer(pod, c, v1.EventTypeNormal, "Killing", "FailedPostStartHook")
	w.kill(ctx, pod, c, id, graceOf(pod))
	return "PostStartHookError", err
}

func containerOf(pod *v1.Pod, name string) *v1.Container {
	for _, c := range plan.Containers(pod) {
		if c.Name == name {
			return c
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if e := &pod.Spec.EphemeralContainers[i]; e.Name == name {
			c := v1.Container(e.EphemeralContainerCommon)
			return &c
		}
	}
	return nil
}

// target is the container whose processes an ephemeral container asks to see, "" for none.
func (w *worker) target(ctx context.Context, pod *v1.Pod, name string) string {
	for i := range pod.Spec.EphemeralContainers {
		e := &pod.Spec.EphemeralContainers[i]
		if e.Name != name || e.TargetContainerName == "" {
			continue
		}
		observed, err := w.m.Engine.Pod(ctx, w.uid)
		if err != nil {
			return ""
		}
		if run := observed.Container(e.TargetContainerName); run != nil && run.State == runtime.Running {
			return run.ID
		}
	}
	return ""
}
