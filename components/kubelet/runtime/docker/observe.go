package docker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// inspections bounds how many containers are asked for at once.
const inspections = 8

// Pods implements runtime.Runtime.
func (e *Engine) Pods(ctx context.Context) (_ []runtime.Pod, err error) {
	defer e.observe("list_containers", &err)()
	e.mu.Lock()
	before := slices.Collect(maps.Keys(e.inspected))
	e.mu.Unlock()
	pods, err := e.list(ctx, client.Filters{}.Add("label", labelNode+"="+e.options.Node, labelPodUID))
	if err != nil {
		return nil, err
	}
	e.forgetRemoved(before, pods)
	return pods, nil
}

// forgetRemoved drops those of the inspected containers that the engine has no more: others removed them.
func (e *Engine) forgetRemoved(inspected []string, pods []runtime.Pod) {
	there := map[string]bool{}
	for i := range pods {
		for j := range pods[i].Containers {
			there[pods[i].Containers[j].ID] = true
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range inspected {
		if !there[id] {
			delete(e.inspected, id)
		}
	}
}

// Pod implements runtime.Runtime.
func (e *Engine) Pod(ctx context.Context, uid types.UID) (_ runtime.Pod, err error) {
	defer e.observe("list_containers", &err)()
	pods, err := e.list(ctx, client.Filters{}.Add("label", labelNode+"="+e.options.Node, labelPodUID+"="+string(uid)))
	if err != nil || len(pods) == 0 {
		return runtime.Pod{UID: uid}, err
	}
	return pods[0], nil
}

func (e *Engine) list(ctx context.Context, filters client.Filters) ([]runtime.Pod, error) {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	listed, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, err
	}
	containers := make([]runtime.Container, len(listed.Items))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(inspections)
	for i := range listed.Items {
		summary := &listed.Items[i]
		if summary.Labels[labelType] != typeContainer {
			continue
		}
		group.Go(func() (err error) {
			containers[i], err = e.container(groupCtx, summary)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return e.assemble(listed.Items, containers), nil
}

// assemble sorts what was found into pods.
func (e *Engine) assemble(summaries []container.Summary, containers []runtime.Container) []runtime.Pod {
	var order []types.UID
	pods := map[types.UID]*runtime.Pod{}
	for i := range summaries {
		ref := podOf(summaries[i].Labels)
		pod := pods[ref.UID]
		if pod == nil {
			pod = &runtime.Pod{UID: ref.UID, Namespace: ref.Namespace, Name: ref.Name}
			pods[ref.UID] = pod
			order = append(order, ref.UID)
		}
		switch {
		case summaries[i].Labels[labelType] == typeSandbox:
			pod.Sandboxes = append(pod.Sandboxes, e.sandbox(&summaries[i]))
		case containers[i].ID != "": // else it went away between list and inspect
			pod.Containers = append(pod.Containers, containers[i])
		}
	}
	result := make([]runtime.Pod, 0, len(order))
	for _, uid := range order {
		pod := pods[uid]
		slices.SortStableFunc(pod.Sandboxes,
			func(a, b runtime.Sandbox) int { return cmp.Compare(b.Attempt, a.Attempt) })
		slices.SortStableFunc(pod.Containers, func(a, b runtime.Container) int {
			return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.Created.Compare(a.Created))
		})
		result = append(result, *pod)
	}
	return result
}

func (e *Engine) sandbox(summary *container.Summary) runtime.Sandbox {
	s := runtime.Sandbox{
		ID:      summary.ID,
		Attempt: attemptOf(summary.Labels),
		State:   stateOf(summary.State),
		Created: time.Unix(summary.Created, 0),
		Ports:   portsOf(summary.Labels),
	}
	if s.State == runtime.Running && summary.NetworkSettings != nil {
		s.IPs = e.addresses(summary.NetworkSettings.Networks)
	}
	return s
}

func stateOf(state container.ContainerState) runtime.State {
	switch state {
	case container.StateCreated:
		return runtime.Created
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return runtime.Running
	default:
		return runtime.Exited
	}
}

// container inspects one, unless that is known; the zero Container means that it is gone.
func (e *Engine) container(ctx context.Context, summary *container.Summary) (runtime.Container, error) {
	e.mu.Lock()
	known, ok := e.inspected[summary.ID]
	drops := e.drops
	e.mu.Unlock()
	if ok && known.State == stateOf(summary.State) {
		return known, nil
	}
	answer, err := e.inspect(ctx, summary.ID)
	for deadline := time.Now().Add(oomTimeout); err == nil && mayBeOOM(&answer.Container) && time.Now().Before(deadline); {
		time.Sleep(oomTimeout / 15)
		answer, err = e.inspect(ctx, summary.ID)
	}
	if errdefs.IsNotFound(err) {
		return runtime.Container{}, nil
	}
	if err != nil {
		return runtime.Container{}, err
	}
	c := translate(&answer.Container)
	if c.State != runtime.Created && c.StartErr == "" {
		e.mu.Lock()
		if e.drops == drops {
			e.inspected[c.ID] = c
		}
		e.mu.Unlock()
	}
	return c, nil
}

func (e *Engine) inspect(ctx context.Context, id string) (_ client.ContainerInspectResult, err error) {
	defer e.observe("container_status", &err)()
	return e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
}

// oomTimeout is how long the engine may take to learn why a container was killed.
const oomTimeout = 300 * time.Millisecond

// mayBeOOM reports whether a container may have been killed for want of memory though the engine does not say so (yet):
// the kill and its cause are reported by two events, in either order.
func mayBeOOM(in *container.InspectResponse) bool {
	const killed = 128 + 9
	return in.State != nil && stateOf(in.State.Status) == runtime.Exited && in.State.ExitCode == killed &&
		!in.State.OOMKilled &&
		in.HostConfig != nil && in.HostConfig.Memory > 0
}

// signalName is the name of a signal, which images may have as a number, and with or without SIG.
func signalName(text string) string {
	if text == "" {
		return "SIGTERM"
	}
	if number, err := strconv.Atoi(text); err == nil {
		return unix.SignalName(syscall.Signal(number))
	}
	return "SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG")
}

func translate(in *container.InspectResponse) runtime.Container {
	labels := in.Config.Labels
	c := runtime.Container{
		ID:          in.ID,
		Name:        labels[labelContainer],
		SandboxID:   labels[labelSandbox],
		Attempt:     attemptOf(labels),
		Image:       labels["io.quintet.image"],
		ImageID:     in.Image,
		Hash:        labels[labelHash],
		Created:     parseTime(in.Created),
		MessageFile: labels[labelMessageFile],
		User:        in.Config.User,
		StopSignal:  signalName(in.Config.StopSignal),
	}
	if request, err := strconv.ParseInt(labels[labelMemoryRequest], 10, 64); err == nil {
		c.MemoryRequest = request // a container of an earlier kubelet has no such label
	}
	if h := in.HostConfig; h != nil {
		c.Resources = runtime.Resources{CPUShares: h.CPUShares, CPUQuota: h.CPUQuota, CPUPeriod: h.CPUPeriod,
			MemoryBytes: h.Memory}
	}
	if in.State == nil {
		c.State = runtime.Created
		return c
	}
	c.State = stateOf(in.State.Status)
	c.Started = parseTime(in.State.StartedAt)
	if c.State == runtime.Exited {
		c.Finished = parseTime(in.State.FinishedAt)
		if c.Finished.Before(c.Started) { // the engine notes the start of a short one after its end
			c.Finished = c.Started
		}
		c.ExitCode = in.State.ExitCode
		c.OOMKilled = in.State.OOMKilled
	}
	if in.State.Error != "" && c.Started.IsZero() && !givenUp(in.State.Error) {
		// the engine leaves it "created" when its start failed
		c.State, c.StartErr, c.ExitCode = runtime.Exited, in.State.Error, cmp.Or(in.State.ExitCode, notStarted)
		c.Finished = c.Created
	}
	return c
}

// notStarted is the exit code of a container that could not be started where the engine names none.
const notStarted = 128

// givenUp tells that a start did not fail: the kubelet that requested it ended. It is retried.
func givenUp(failure string) bool { return strings.Contains(failure, context.Canceled.Error()) }

// parseTime reads the engine's time; it writes "0001-01-01T00:00:00Z" for never, which is Go's zero time.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Events implements runtime.Runtime.
func (e *Engine) Events(ctx context.Context) (<-chan types.UID, error) {
	stream := e.api.Events(ctx, client.EventsListOptions{
		Filters: client.Filters{}.Add("type", "container").Add("label", labelNode+"="+e.options.Node).
			Add("event", "start", "die", "destroy", "oom", "update"),
	})
	e.dropAll() // there may have been events that were not followed
	out := make(chan types.UID)
	go func() {
		defer close(out)
		for {
			select {
			case message := <-stream.Messages:
				e.drop(message.Actor.ID)
				if !deliver(ctx, out, message) {
					return
				}
			case <-stream.Err:
				return
			}
		}
	}()
	return out, nil
}

// drop makes containers be inspected again.
func (e *Engine) drop(ids ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drops++
	for _, id := range ids {
		delete(e.inspected, id)
	}
}

func (e *Engine) dropAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drops++
	clear(e.inspected)
}

func deliver(ctx context.Context, out chan<- types.UID, message events.Message) bool {
	uid := types.UID(message.Actor.Attributes[labelPodUID])
	if uid == "" {
		return true
	}
	select {
	case out <- uid:
		return true
	case <-ctx.Done():
		return false
	}
}
