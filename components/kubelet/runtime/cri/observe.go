package cri

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// inspections bounds how many sandboxes and containers are asked for at once.
const inspections = 8

// Pods implements runtime.Runtime.
func (e *Engine) Pods(ctx context.Context) (_ []runtime.Pod, err error) {
	e.mu.Lock()
	ended, sandboxes := slices.Collect(maps.Keys(e.finished)), slices.Collect(maps.Keys(e.sandboxes))
	e.mu.Unlock()
	pods, err := e.list(ctx, "")
	if err == nil {
		e.forgetRemoved(ended, sandboxes, pods)
	}
	return pods, err
}

// forgetRemoved drops what was known of containers and sandboxes that the engine has no more: others removed them.
func (e *Engine) forgetRemoved(ended, sandboxes []string, pods []runtime.Pod) {
	there := map[string]bool{}
	for i := range pods {
		for j := range pods[i].Containers {
			there[pods[i].Containers[j].ID] = true
		}
		for j := range pods[i].Sandboxes {
			there[pods[i].Sandboxes[j].ID] = true
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ended {
		if !there[id] {
			delete(e.finished, id)
		}
	}
	for _, id := range sandboxes {
		if !there[id] {
			delete(e.sandboxes, id)
		}
	}
}

// Pod implements runtime.Runtime.
func (e *Engine) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	pods, err := e.list(ctx, uid)
	if err != nil || len(pods) == 0 {
		return runtime.Pod{UID: uid}, err
	}
	return pods[0], nil
}

// list observes all pods, or the one called uid. Containers are listed first: one that is found has its sandbox, too.
func (e *Engine) list(ctx context.Context, uid types.UID) (_ []runtime.Pod, err error) {
	defer e.observe("list_containers", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	labels := selector(e.options.Node, uid)
	listed, err := e.runtime.ListContainers(ctx, &cri.ListContainersRequest{
		Filter: &cri.ContainerFilter{LabelSelector: labels}})
	if err != nil {
		return nil, mark(err)
	}
	held, err := e.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{
		Filter: &cri.PodSandboxFilter{LabelSelector: labels}})
	if err != nil {
		return nil, mark(err)
	}
	containers := make([]runtime.Container, len(listed.GetContainers()))
	sandboxes := make([]runtime.Sandbox, len(held.GetItems()))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(inspections)
	for i, c := range listed.GetContainers() {
		group.Go(func() (err error) {
			containers[i], err = e.container(groupCtx, c)
			return err
		})
	}
	for i, s := range held.GetItems() {
		group.Go(func() (err error) {
			sandboxes[i], err = e.sandbox(groupCtx, s)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var pods assembly
	for i, s := range held.GetItems() {
		pod := pods.of(s.GetLabels())
		pod.Sandboxes = append(pod.Sandboxes, sandboxes[i])
	}
	for i, c := range listed.GetContainers() {
		if containers[i].ID != "" { // else it went away between list and status
			pod := pods.of(c.GetLabels())
			pod.Containers = append(pod.Containers, containers[i])
		}
	}
	return pods.sorted(), nil
}

// assembly sorts what was found into pods, in the order in which they are found.
type assembly struct {
	order []types.UID
	pods  map[types.UID]*runtime.Pod
}

func (a *assembly) of(labels map[string]string) *runtime.Pod {
	ref := podOf(labels)
	if pod := a.pods[ref.UID]; pod != nil {
		return pod
	}
	if a.pods == nil {
		a.pods = map[types.UID]*runtime.Pod{}
	}
	pod := &runtime.Pod{UID: ref.UID, Namespace: ref.Namespace, Name: ref.Name}
	a.pods[ref.UID] = pod
	a.order = append(a.order, ref.UID)
	return pod
}

func (a *assembly) sorted() []runtime.Pod {
	result := make([]runtime.Pod, 0, len(a.order))
	for _, uid := range a.order {
		pod := a.pods[uid]
		slices.SortStableFunc(pod.Sandboxes, func(a, b runtime.Sandbox) int {
			return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.Created.Compare(a.Created))
		})
		slices.SortStableFunc(pod.Containers, func(a, b runtime.Container) int {
			return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.Created.Compare(a.Created))
		})
		result = append(result, *pod)
	}
	return result
}

// sandbox observes one, whose addresses are asked for once.
func (e *Engine) sandbox(ctx context.Context, listed *cri.PodSandbox) (runtime.Sandbox, error) {
	s := runtime.Sandbox{
		ID: listed.GetId(), Attempt: int(listed.GetMetadata().GetAttempt()), State: runtime.Exited,
		Created: time.Unix(0, listed.GetCreatedAt()), Ports: portsOf(listed.GetAnnotations()),
	}
	if listed.GetState() == cri.PodSandboxState_SANDBOX_READY {
		s.State = runtime.Running
	}
	e.mu.Lock()
	about, ok := e.sandboxes[s.ID]
	e.mu.Unlock()
	if s.State == runtime.Exited || ok && about.ips != nil {
		if s.State == runtime.Running {
			s.IPs = slices.Clone(about.ips)
		}
		e.note(s.ID, known{uid: podOf(listed.GetLabels()).UID, ips: about.ips})
		return s, nil
	}
	answer, err := e.runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: s.ID})
	err = mark(err)
	if errors.Is(err, runtime.ErrNotFound) { // it went away meanwhile
		s.State = runtime.Exited
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.IPs = addresses(answer.GetStatus())
	e.note(s.ID, known{uid: podOf(listed.GetLabels()).UID, ips: s.IPs})
	return s, nil
}

func (e *Engine) note(sandbox string, about known) {
	e.mu.Lock()
	e.sandboxes[sandbox] = about
	e.mu.Unlock()
}

// addresses are those of a sandbox that has a network of its own.
func addresses(sandbox *cri.PodSandboxStatus) []string {
	if sandbox.GetLinux().GetNamespaces().GetOptions().GetNetwork() == cri.NamespaceMode_NODE ||
		sandbox.GetNetwork().GetIp() == "" {
		return nil
	}
	ips := []string{sandbox.GetNetwork().GetIp()}
	for _, more := range sandbox.GetNetwork().GetAdditionalIps() {
		ips = append(ips, more.GetIp())
	}
	return ips
}

// oomTimeout is how long an engine may take to learn why a container was killed.
const oomTimeout = 300 * time.Millisecond

// container observes one; the zero Container means that it is gone.
func (e *Engine) container(ctx context.Context, listed *cri.Container) (runtime.Container, error) {
	if listed.GetState() == cri.ContainerState_CONTAINER_EXITED {
		e.mu.Lock()
		known, ok := e.finished[listed.GetId()]
		e.mu.Unlock()
		if ok {
			return known, nil
		}
	}
	request := &cri.ContainerStatusRequest{ContainerId: listed.GetId()}
	answer, err := e.runtime.ContainerStatus(ctx, request)
	for deadline := time.Now().Add(oomTimeout); err == nil && mayBeOOM(answer.GetStatus()) &&
		time.Now().Before(deadline); {
		time.Sleep(oomTimeout / 15)
		answer, err = e.runtime.ContainerStatus(ctx, request)
	}
	err = mark(err)
	if errors.Is(err, runtime.ErrNotFound) {
		return runtime.Container{}, nil
	}
	if err != nil {
		return runtime.Container{}, err
	}
	c := translate(answer.GetStatus(), listed.GetPodSandboxId())
	if c.State == runtime.Exited {
		e.mu.Lock()
		e.finished[c.ID] = c
		e.mu.Unlock()
	}
	return c, nil
}

// mayBeOOM tells whether a container may have been killed for want of memory though the engine does not say so (yet):
// the kill and its cause are reported by two events, in either order.
func mayBeOOM(c *cri.ContainerStatus) bool {
	const killed = 128 + 9
	return c.GetState() == cri.ContainerState_CONTAINER_EXITED && c.GetExitCode() == killed &&
		c.GetReason() != reasonOOM && c.GetResources().GetLinux().GetMemoryLimitInBytes() > 0
}
