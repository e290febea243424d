// Package pods runs a node's pods: it watches which are the node's, and a worker for each observes, plans, acts
// and reports until the pod is gone.
package pods

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/objects"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/probes"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/status"
	"quintet.dev/quintet/components/kubelet/sysctls"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// Config is what pods are run with.
type Config struct {
	Engine   runtime.Engine
	Builder  *spec.Builder
	Volumes  *volumes.Manager // nil for runtimes that only pretend
	Objects  *objects.Store
	Images   *images.Puller
	Hooks    *hooks.Runner
	Status   *status.Writer
	Recorder record.EventRecorder
	Clock    clock.WithTicker
	Cgroups  cgroups.Tree
	// HostPorts opens the host ports of pods; nil where there are none to open.
	HostPorts HostPorts
	Sysctls   sysctls.Allowed
	Limits    plan.Limits // of restarts
	// Node returns the node as it is, for admission; nil while it is not known.
	Node func() *v1.Node
	// FreshNode asks the API server for it; nil where there is none.
	FreshNode func(context.Context) (*v1.Node, error)
	// HostIPs are the node's addresses.
	HostIPs []string
	// RuntimeName is the scheme of container IDs.
	RuntimeName string
	// Resync is how often a worker looks at its pod without a cause.
	Resync time.Duration
	// Relist is how often all containers of the engine are compared with the pods that are known.
	Relist time.Duration
	// NetworkReady is closed once pods can get an address.
	NetworkReady <-chan struct{}
}

// HostPorts are the ports of the node that lead to pods.
type HostPorts interface {
	// Set makes the ports those of the pod as it is observed.
	Set(ctx context.Context, pod *runtime.Pod) error
	// Forget closes the ports of a pod.
	Forget(ctx context.Context, uid types.UID) error
	// Sync takes in all pods that the runtime has, and repairs what is open.
	Sync(ctx context.Context, pods []runtime.Pod) error
}

// Manager owns the workers. It is safe for concurrent use.
type Manager struct {
	Config
	probes    *probes.Manager
	admission sync.Mutex // pods are admitted one after the other

	mu       sync.Mutex
	workers  map[types.UID]*worker
	ctx      context.Context
	wait     sync.WaitGroup
	synced   bool      // the API's list of pods was seen
	unlisted time.Time // since when the engine owes the list of its containers; zero if it does not

	relistNow chan struct{}
}

// New makes a manager that has no pods yet.
func New(config Config) *Manager {
	m := &Manager{Config: config, workers: map[types.UID]*worker{}, relistNow: make(chan struct{}, 1)}
	m.probes = &probes.Manager{
		Runner: m.Hooks, Clock: m.Clock, Changed: m.Poke, Pretend: m.Builder.Virtual, Record: m.recordContainer,
	}
	return m
}

// Run follows the engine until ctx ends; pods come through Set and Gone. All workers ended when it returns.
func (m *Manager) Run(ctx context.Context) {
	m.mu.Lock()
	m.ctx = ctx
	for _, w := range m.workers {
		m.launch(w)
	}
	m.mu.Unlock()
	m.wait.Go(func() { m.guardStorage(ctx) })
	m.follow(ctx)
	m.wait.Wait()
	m.probes.Wait()
}

// listThreshold is how long the list of all containers may take before the node counts as not healthy.
const listThreshold = 3 * time.Minute

// Healthy tells, in upstream's words, that the engine did not list its containers for too long.
func (m *Manager) Healthy() error {
	m.mu.Lock()
	unlisted := m.unlisted
	m.mu.Unlock()
	age := m.Clock.Since(unlisted)
	if unlisted.IsZero() || age <= listThreshold {
		return nil
	}
	return fmt.Errorf("PLEG is not healthy: pleg was last seen active %v ago; threshold is %v",
		age.Round(time.Second), listThreshold)
}

// Set hands in a pod of this node, new or changed.
func (m *Manager) Set(pod *v1.Pod) {
	pod = capQuantities(pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workers[pod.UID]
	if w == nil {
		w = newWorker(m, pod.UID)
		m.workers[pod.UID] = w
		w.set(pod)
		m.launch(w)
		return
	}
	if w.set(pod) {
		w.poke()
	}
}

// Gone tells that a pod left the API.
func (m *Manager) Gone(pod *v1.Pod) {
	pod = capQuantities(pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.workers[pod.UID]; w != nil {
		w.setGone(pod)
		w.poke()
	}
}

// Synced tells that all pods of the node were handed in: what else the engine holds is left over.
func (m *Manager) Synced() {
	m.mu.Lock()
	m.synced = true
	m.mu.Unlock()
	select {
	case m.relistNow <- struct{}{}:
	default:
	}
}

// launch starts a worker's goroutine once the manager runs; it is called with the lock held.
func (m *Manager) launch(w *worker) {
	if m.ctx == nil || w.launched {
		return
	}
	w.launched = true
	m.wait.Go(func() { w.run(m.ctx) })
}

// Poke makes the worker of a pod look again.
func (m *Manager) Poke(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.workers[uid]; w != nil {
		w.poke()
	}
}

// Refresh makes the workers of pods write their volumes anew.
func (m *Manager) Refresh(uids []types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uid := range uids {
		if w := m.workers[uid]; w != nil {
			w.refresh()
		}
	}
}

// Written takes in a pod as the API server returned it. The answer to a write can be overtaken by the watch: what is
// older than what is known, such as the pod before somebody deleted it, is dropped.
func (m *Manager) Written(pod *v1.Pod) {
	pod = capQuantities(pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.workers[pod.UID]; w != nil && !w.knowsNewer(pod) && w.set(pod) {
		w.poke()
	}
}

// List returns the pods of the node as they are known.
func (m *Manager) List() []*v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(m.workers))
	for _, w := range m.workers {
		if pod := w.current(); pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Find returns a pod of the node by name, nil if it is not there.
func (m *Manager) Find(namespace, name string) *v1.Pod {
	for _, pod := range m.List() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod
		}
	}
	return nil
}

// follow pokes workers for the engine's events, and relists now and then and whenever the events were lost.
func (m *Manager) follow(ctx context.Context) {
	for ctx.Err() == nil {
		events, err := m.Engine.Events(ctx)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Events of the container engine can't be followed, will be retried")
		} else {
			m.relist(ctx)
			m.drain(ctx, events)
		}
		select {
		case <-ctx.Done():
		case <-m.Clock.After(time.Second):
		}
	}
}

func (m *Manager) drain(ctx context.Context, events <-chan types.UID) {
	ticker := m.Clock.NewTicker(m.Relist)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case uid, ok := <-events:
			if !ok {
				return
			}
			m.Poke(uid)
		case <-m.relistNow:
			m.relist(ctx)
		case <-ticker.C():
			m.relist(ctx)
		}
	}
}

// relist wakes all workers of pods with containers, and adopts pods that nobody asked for, to end them.
func (m *Manager) relist(ctx context.Context) {
	m.mu.Lock()
	synced := m.synced // read before the list: a pod handed in later is not left over
	if m.unlisted.IsZero() {
		m.unlisted = m.Clock.Now()
	}
	m.mu.Unlock()
	found, err := m.Engine.Pods(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Containers can't be listed, will be retried")
		return
	}
	m.mu.Lock()
	m.unlisted = time.Time{}
	m.mu.Unlock()
	if m.HostPorts != nil {
		if err := m.HostPorts.Sync(ctx, found); err != nil {
			klog.FromContext(ctx).Error(err, "Host ports can't be set, will be retried")
		}
	}
	var known []types.UID
	if m.Volumes != nil {
		if known, err = m.Volumes.Pods(); err != nil {
			klog.FromContext(ctx).Error(err, "Directories of pods can't be listed")
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range found {
		m.visit(ctx, found[i].UID, &found[i], synced)
		known = slices.DeleteFunc(known, func(uid types.UID) bool { return uid == found[i].UID })
	}
	for _, uid := range known {
		m.visit(ctx, uid, &runtime.Pod{UID: uid}, synced)
	}
}

func (m *Manager) visit(ctx context.Context, uid types.UID, found *runtime.Pod, synced bool) {
	if w := m.workers[uid]; w != nil {
		w.poke()
		return
	}
	if !synced {
		return
	}
	klog.FromContext(ctx).Info("Ending a pod that the API does not know (any more)", "podUID", uid, "pod", klog.KRef(found.Namespace, found.Name))
	w := newWorker(m, uid)
	w.setGone(orphan(found))
	m.workers[uid] = w
	m.launch(w)
}

func (m *Manager) forget(uid types.UID) {
	m.mu.Lock()
	delete(m.workers, uid)
	m.mu.Unlock()
	m.pokeDeferred()
}

// others lists pods that take part in admission: those admitted that still have a claim on the node.
func (m *Manager) others(uid types.UID) []*v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	var pods []*v1.Pod
	for _, w := range m.workers {
		if w.uid == uid {
			continue
		}
		if pod := w.claims(); pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}
