package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/metrics"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/status"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// startAll begins to make the sandbox, or to start containers one after the other. pod has its addresses.
func (w *worker) startAll(ctx context.Context, pod *v1.Pod, actions []plan.Action) {
	s := &w.state
	ctx = w.occupy(ctx)
	start := starter{
		operations: &w.operations, pod: pod, sandbox: s.observed.Sandbox(), fresh: len(s.observed.Containers) == 0,
		volumes: s.volumes, mounted: w.Volumes == nil || s.volumes != nil &&
			!s.unmounted, mountFailures: s.mountFailures, prepared: map[string]prepared{},
	}
	for _, action := range actions {
		if c := containerOf(pod, action.Name); c != nil && c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
			s.starting[action.Name] = true // others are reported as soon as the engine says that they run
		}
		if p, ok := s.prepared[action.Name]; ok {
			start.prepared[action.Name] = p
			delete(s.prepared, action.Name)
		}
	}
	if len(s.prepared) == 0 {
		s.prepared = nil // a map keeps the room of what it had
	}
	w.begin(func(tell func(result)) result {
		start.tell = tell
		for _, action := range actions {
			if ctx.Err() != nil {
				break
			}
			if action.Kind == plan.CreateSandbox {
				tell(start.createSandbox(ctx, action.Attempt))
			} else {
				tell(start.start(ctx, action)) // each container is reported as soon as it runs
			}
		}
		return startsEnded{}
	})
}

// starter starts the sandbox or containers of a pod. It belongs to one operation.
type starter struct {
	*operations
	pod           *v1.Pod
	sandbox       *runtime.Sandbox // of containers
	fresh         bool             // the pod never had a container
	volumes       map[string]volumes.Mounted
	mounted       bool // all volumes are there
	mountFailures int  // in a row, before this start
	prepared      map[string]prepared
	tell          func(result)
}

// sandboxCreated tells that a sandbox was made, or could not be.
type sandboxCreated struct {
	prepared map[string]prepared
	retryAt  time.Time // zero unless it failed
}

func (r sandboxCreated) apply(_ context.Context, w *worker) {
	w.state.changed()
	if w.state.prepared == nil {
		w.state.prepared = map[string]prepared{}
	}
	maps.Copy(w.state.prepared, r.prepared)
	if !r.retryAt.IsZero() {
		w.state.notBefore[""] = r.retryAt
	}
}

// started tells that a container runs, and its postStart hook ended, or why it could not be started.
type started struct {
	name    string
	aborted bool
	failed  bool
	why     plan.Waiting // of a failure; without reason it is not reported
	retryAt time.Time
}

func (r started) apply(_ context.Context, w *worker) {
	s := &w.state
	s.changed()
	delete(s.starting, r.name)
	switch {
	case r.aborted:
	case !r.failed:
		delete(s.failures, r.name)
		delete(s.notBefore, r.name)
	default:
		if r.why.Reason != "" {
			s.failures[r.name] = r.why
		}
		s.notBefore[r.name] = r.retryAt
	}
}

// startsEnded tells that nothing more is started. What was started was told before, and is being observed: another
// observation would void that one.
type startsEnded struct{}

func (startsEnded) apply(_ context.Context, w *worker) {
	w.state.decide = true
	w.state.release()
	clear(w.state.starting)
}

// createSandbox makes the volumes and the sandbox at the same time, as neither needs the other; the containers of a
// fresh pod are made while the sandbox starts.
func (s *starter) createSandbox(ctx context.Context, attempt int) sandboxCreated {
	if !s.pod.Spec.HostNetwork && !s.networkReady(ctx) {
		return sandboxCreated{}
	}
	if attempt > 0 {
		s.record(s.pod, v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	if err := s.prepareClaims(ctx); err != nil {
		return sandboxCreated{retryAt: s.Clock.Now().Add(retryDelay)}
	}
	var mounting, preparing sync.WaitGroup
	mounting.Go(func() { s.mount(ctx) })
	var id string
	sandbox, err := s.Builder.Sandbox(s.pod, attempt)
	if err == nil {
		if attempt == 0 && s.fresh {
			sandbox.Created = func(id string) {
				preparing.Wait() // a sandbox is made twice where the first can't be started
				preparing.Go(func() {
					mounting.Wait()
					s.prepare(ctx, id)
				})
			}
		}
		id, err = s.Engine.CreateSandbox(ctx, sandbox)
	}
	s.Metrics.PodStarted(err)
	mounting.Wait()
	preparing.Wait()
	if err == nil {
		err = s.openHostPorts(ctx, sandbox, id)
	}
	created := sandboxCreated{prepared: s.prepared}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Sandbox of the pod can't be made, will be retried",
			"pod", klog.KObj(s.pod), "attempt", attempt)
		s.record(s.pod, v1.EventTypeWarning, "FailedCreatePodSandBox",
			fmt.Sprintf("Failed to create pod sandbox: %v", err))
		created.retryAt = s.Clock.Now().Add(retryDelay)
	}
	return created
}

// networkReady waits for the pod network, and tells that it does.
func (s *starter) networkReady(ctx context.Context) bool {
	select {
	case <-s.NetworkReady:
		return true
	default:
	}
	s.record(s.pod, v1.EventTypeWarning, "NetworkNotReady", "network is not ready: the node has no pod network yet")
	select {
	case <-s.NetworkReady:
		return true
	case <-ctx.Done():
		return false
	}
}

// start brings one container up.
func (s *starter) start(ctx context.Context, action plan.Action) started {
	c := containerOf(s.pod, action.Name)
	reason, err := s.tryStart(ctx, c, action.Attempt)
	if ctx.Err() != nil {
		return started{name: c.Name, aborted: true}
	}
	s.Metrics.ContainerStarted(metrics.ContainerType(s.pod, c.Name), startFailure(reason, err))
	if err == nil {
		return started{name: c.Name}
	}
	klog.FromContext(ctx).Error(err, "Container can't be started", "pod", klog.KObj(s.pod), "container", c.Name,
		"attempt", action.Attempt, "reason", reason)
	retryAt := s.Clock.Now().Add(retryDelay)
	var image *images.Error
	switch {
	case errors.Is(err, errVolumes):
		retryAt = s.Clock.Now().Add(mountDelay(s.mountFailures))
	case errors.As(err, &image):
		if at := s.Images.RetryAt(s.uid, failedImage(c, err)); !at.IsZero() {
			retryAt = at
			if image.Reason == "ErrImagePull" { // soon after, the status tells that it waits
				retryAt = s.Clock.Now().Add(min(time.Second, at.Sub(s.Clock.Now())))
			}
		}
	case reason == "RunContainerError" && !s.untouched(ctx, c.Name):
		retryAt = time.Time{} // the container that did not start backs off as one that crashed
	}
	if image == nil && reason != "" && reason != "PostStartHookError" {
		s.recordContainer(s.pod, c, v1.EventTypeWarning, "Failed", "Error: "+err.Error())
	}
	return started{name: c.Name, failed: true, why: plan.Waiting{Reason: reason, Message: err.Error()},
		retryAt: retryAt}
}

// startFailure is the reason of a failure to start, "" if there was none.
func startFailure(reason string, err error) string {
	if err == nil {
		return ""
	}
	return cmp.Or(reason, "Unknown")
}

// untouched tells that the engine did not get as far as starting a container: it doesn't count as one that ended.
func (o *operations) untouched(ctx context.Context, name string) bool {
	observed, err := o.Engine.Pod(ctx, o.uid)
	if err != nil {
		return true
	}
	run := observed.Container(name)
	return run == nil || run.State == runtime.Created
}

// tryStart does the steps; the reason it returns with an error is the one a status reports.
func (s *starter) tryStart(ctx context.Context, c *v1.Container, attempt int) (string, error) {
	id, ok := s.ready(c.Name, attempt)
	if ok {
		if err := s.Builder.Hosts(s.pod); err != nil { // now the address is known
			return "CreateContainerConfigError", err
		}
	} else {
		var reason string
		var err error
		if id, reason, err = s.make(ctx, c, s.sandbox.ID, attempt); err != nil {
			return reason, err
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err // the pod is ending by now
	}
	if err := s.Engine.Start(ctx, id); err != nil {
		return "RunContainerError", err
	}
	if err := s.Cgroups.SetContainer(s.uid, status.QOS(s.pod), id, s.Builder.ContainerSettings(s.pod, c)); err != nil {
		klog.FromContext(ctx).Error(err, "Control group of the container can't be set up", "pod", klog.KObj(s.pod),
			"container", c.Name)
	}
	s.recordContainer(s.pod, c, v1.EventTypeNormal, "Started", "Container started")
	return s.postStart(ctx, c, id)
}

func imageReason(err error) string {
	var failure *images.Error
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return "ImageInspectError"
}

// postStart runs the hook; a container whose hook fails is killed.
func (s *starter) postStart(ctx context.Context, c *v1.Container, id string) (string, error) {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil || s.Builder.Simulated.Processes {
		return "", nil
	}
	err := s.Hooks.Lifecycle(ctx, hooks.Target{ID: id, PodIP: s.pod.Status.PodIP, Container: c}, c.Lifecycle.PostStart)
	if err == nil || ctx.Err() != nil {
		return "", nil
	}
	s.recordContainer(s.pod, c, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	s.recordContainer(s.pod, c, v1.EventTypeNormal, "Killing", "FailedPostStartHook")
	s.kill(ctx, s.pod, c, id, plan.Grace(s.pod))
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
func (o *operations) target(ctx context.Context, pod *v1.Pod, name string) string {
	for i := range pod.Spec.EphemeralContainers {
		e := &pod.Spec.EphemeralContainers[i]
		if e.Name != name || e.TargetContainerName == "" {
			continue
		}
		observed, err := o.Engine.Pod(ctx, o.uid)
		if err != nil {
			return ""
		}
		if run := observed.Container(e.TargetContainerName); run != nil && run.State == runtime.Running {
			return run.ID
		}
	}
	return ""
}
