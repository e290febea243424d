// Package pods runs a node's pods: it watches which are the node's, and a worker for each observes, plans, acts
// and reports until the pod is gone. One goroutine owns the state of a pod; slow operations run concurrently and
// hands its result in as a message. Pods share nothing but the node's resources, which admission divides.
package pods

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/devices"
	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/metrics"
	"quintet.dev/quintet/components/kubelet/objects"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/probes"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/static"
	"quintet.dev/quintet/components/kubelet/sysctls"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// Config is what pods are run with.
type Config struct {
	Engine   runtime.Engine
	Builder  *spec.Builder
	Volumes  *volumes.Manager // nil for engines that simulate files
	Objects  *objects.Store
	Images   *images.Puller
	Hooks    *hooks.Runner
	Status   Statuses
	Recorder record.EventRecorder
	Clock    clock.WithTickerAndDelayedExecution
	Cgroups  cgroups.Tree
	// HostPorts opens the host ports of pods; nil where there are none to open.
	HostPorts HostPorts
	Sysctls   sysctls.Allowed
	// Devices gives pods the devices of plug-ins; nil where there are none.
	Devices Devices
	// Claims prepares the claims of pods for devices; nil where there are none.
	Claims Claims
	Limits plan.Limits // of restarts
	// Node returns the node as it is, for admission; nil while it is not known.
	Node func() *v1.Node
	// FreshNode reads it from the API server; nil without one.
	FreshNode func(context.Context) (*v1.Node, error)
	// Pressure tells what the node lacks, sorted; nil: never anything.
	Pressure func() []v1.NodeConditionType
	// ShuttingDown is not nil while the node shuts down, and takes no pods; nil: it never does.
	ShuttingDown func() error
	// HostIPs are the node's addresses.
	HostIPs []string
	// RuntimeName is the scheme of container IDs.
	RuntimeName string
	// Resync is the interval at which a worker syncs its pod without an event.
	Resync time.Duration
	// Relist is how often all containers of the engine are compared with the pods that are known.
	Relist time.Duration
	// NetworkReady is closed once pods can get an address.
	NetworkReady <-chan struct{}
	// Logs copies the output of containers into files; nil for engines that simulate files.
	Logs Logs
	// Metrics take in what is done; nil: nothing is counted.
	Metrics *metrics.Metrics
	// Turns bounds, by its capacity, how many workers decide at once; nil: all may. Kubelets of one process share it, so
	// that the rest of the process comes to its turn while thousands of pods change together.
	Turns chan struct{}
}

// Statuses takes the statuses of pods to the API server. It is safe for concurrent use.
type Statuses interface {
	// Set hands over the status of a pod. pod is the newest version seen; both are not changed hereafter.
	Set(pod *v1.Pod, status *v1.PodStatus)
	// Delete removes the API object of a pod that is being deleted, after its last status was sent.
	Delete(pod *v1.Pod)
	// Forget drops what is known of a pod of which nothing is left.
	Forget(uid types.UID)
}

// Logs are the files with the output of containers. It is safe for concurrent use.
type Logs interface {
	// Follow copies the output of the containers of a pod until ctx ends. It does not wait.
	Follow(ctx context.Context, pod *v1.Pod, observed *runtime.Pod)
	// Remove deletes the files of a container.
	Remove(id string) error
	// RemovePod deletes all files of a pod.
	RemovePod(uid types.UID) error
	// Wait returns when all copying ended.
	Wait()
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

// Devices are the devices of device plug-ins. It is safe for concurrent use.
type Devices interface {
	// Wants tells that Allocate has something to do for the pod.
	Wants(pod *v1.Pod) bool
	// Allocate gives the containers of a pod their devices; what they have already they keep.
	Allocate(ctx context.Context, pod *v1.Pod) error
	// Release gives back what a pod has.
	Release(uid types.UID)
	// Retain gives back what pods have that are not to be kept.
	Retain(keep func(uid types.UID) bool)
	// WithAllocated returns a node that has at least what pods were given.
	WithAllocated(node *v1.Node) *v1.Node
	// Container returns what a container that is about to start gets.
	Container(ctx context.Context, uid types.UID, c *v1.Container) (*devices.Options, error)
	// Health returns the health of devices by container.
	Health(uid types.UID) map[string][]v1.ResourceStatus
}

// Claims are the ResourceClaims of pods. It is safe for concurrent use.
type Claims interface {
	// Prepare makes the claims of a pod ready for its containers. It is idempotent.
	Prepare(ctx context.Context, pod *v1.Pod) error
	// Uses tells that Unprepare has something to do.
	Uses(uid types.UID) bool
	// Unprepare ends the pod's use of its claims. It is idempotent.
	Unprepare(ctx context.Context, uid types.UID) error
	// Container returns the CDI devices of a container.
	Container(pod *v1.Pod, c *v1.Container) ([]string, error)
	// Health returns the health of the devices of claims by container.
	Health(pod *v1.Pod) map[string][]v1.ResourceStatus
}

// Manager owns the workers. It is safe for concurrent use.
type Manager struct {
	Config
	probes    *probes.Manager
	admission *admission

	sharing sync.Mutex // held while CPUs are shared between the classes of pods

	mu       sync.Mutex
	workers  map[types.UID]*worker
	launches int // so far
	// successors wait for the end of a static pod that has their name.
	successors map[types.NamespacedName]*v1.Pod
	ctx        context.Context
	wait       sync.WaitGroup
	relisted   time.Time // when the last list of all containers began
	synced     bool      // the API's list of pods was seen
	unlisted   time.Time // since when the engine owes the list of its containers; zero if it does not

	relistNow chan struct{}
}

// New makes a manager that has no pods yet.
func New(config Config) *Manager {
	m := &Manager{
		Config: config, workers: map[types.UID]*worker{}, relistNow: make(chan struct{}, 1), admission: newAdmission(),
		successors: map[types.NamespacedName]*v1.Pod{},
	}
	m.probes = &probes.Manager{
		Runner: m.Hooks, Clock: m.Clock, Changed: m.Wake, Simulated: m.Builder.Simulated.Processes,
		Record: m.recordContainer,
	}
	if m.Metrics != nil {
		m.probes.Probed = m.Metrics.Probed
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
	m.wait.Go(func() { m.resync(ctx) })
	m.follow(ctx)
	m.wakeAll()
	m.wait.Wait()
	m.probes.Wait()
	if m.Logs != nil {
		m.Logs.Wait()
	}
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
	if w := m.workers[pod.UID]; w != nil && !(w.leaving && static.Is(pod)) {
		w.inbox.post(func(e *events) { e.pod, e.written = pod, nil })
		return
	}
	if static.Is(pod) && m.taken(nameOf(pod)) {
		m.successors[nameOf(pod)] = pod
		return
	}
	m.employ(pod)
}

// employ makes a worker for a pod; it is called with the lock held.
func (m *Manager) employ(pod *v1.Pod) {
	w := newWorker(m, pod)
	m.workers[pod.UID] = w
	m.launch(w)
}

// taken tells that a static pod of the name is still there; it is called with the lock held.
func (m *Manager) taken(name types.NamespacedName) bool {
	for _, w := range m.workers {
		if pod := w.published.Load().pod; static.Is(pod) && nameOf(pod) == name {
			return true
		}
	}
	return false
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Gone tells that a pod left the API. Its place on the node is free at once.
func (m *Manager) Gone(pod *v1.Pod) {
	pod = capQuantities(pod)
	m.admission.release(pod.UID)
	m.mu.Lock()
	name := nameOf(pod)
	if w := m.workers[pod.UID]; w != nil {
		w.leaving = true
	}
	waited := m.successors[name] != nil && m.successors[name].UID == pod.UID
	if waited {
		delete(m.successors, name)
	}
	m.mu.Unlock()
	if waited {
		m.Status.Forget(pod.UID)
		return
	}
	m.post(pod.UID, func(e *events) { e.gone = pod })
}

// Synced tells that all pods of the node were handed in: what else the engine holds is left over.
func (m *Manager) Synced() {
	m.mu.Lock()
	m.synced = true
	known := map[types.UID]bool{}
	for uid := range m.workers {
		known[uid] = true
	}
	m.mu.Unlock()
	if m.Devices != nil {
		m.Devices.Retain(func(uid types.UID) bool { return known[uid] })
	}
	select {
	case m.relistNow <- struct{}{}:
	default:
	}
}

// launch starts a worker once the manager runs; it is called with the lock held.
func (m *Manager) launch(w *worker) {
	if m.ctx == nil || w.launched {
		return
	}
	w.launched, w.seen = true, m.Clock.Now()
	m.launches++
	w.slot = m.launches % resyncSlots
	m.wait.Add(1)
	w.start(m.ctx)
}

// wakeAll has all workers take a turn.
func (m *Manager) wakeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.workers {
		w.inbox.wake()
	}
}

// resyncSlots is into how many parts the time between two resyncs of a pod is divided, so that not all are synced at
// once.
const resyncSlots = 6

// resync has workers sync their pods also when nothing happens.
func (m *Manager) resync(ctx context.Context) {
	ticker := m.Clock.NewTicker(max(m.Resync/resyncSlots, 1))
	defer ticker.Stop()
	for slot := 0; ; slot = (slot + 1) % resyncSlots {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		m.mu.Lock()
		for _, w := range m.workers {
			if w.slot == slot {
				w.inbox.post(func(e *events) { e.resync = true })
			}
		}
		m.mu.Unlock()
	}
}

// Wake makes the worker of a pod observe it.
func (m *Manager) Wake(uid types.UID) { m.post(uid, func(e *events) { e.observe = true }) }

// Refresh makes the workers of pods rewrite the contents of their volumes.
func (m *Manager) Refresh(uids []types.UID) {
	for _, uid := range uids {
		m.post(uid, func(e *events) { e.refresh = true })
	}
}

// Written takes in a pod as the API server returned it.
func (m *Manager) Written(pod *v1.Pod) {
	pod = capQuantities(pod)
	m.post(pod.UID, func(e *events) { e.written = pod })
}

// post tells the worker of a pod, if there is one, what happened.
func (m *Manager) post(uid types.UID, add func(*events)) {
	m.mu.Lock()
	w := m.workers[uid]
	m.mu.Unlock()
	if w != nil {
		w.inbox.post(add)
	}
}

// wake makes the workers of pods, but for one, observe them.
func (m *Manager) wake(uids []types.UID, but types.UID) {
	for _, uid := range uids {
		if uid != but {
			m.Wake(uid)
		}
	}
}

// wakeDeferred lets pods whose resize waits try again: another pod gave something back.
func (m *Manager) wakeDeferred() { m.wake(m.admission.deferred(), "") }

func (m *Manager) forget(uid types.UID) {
	m.mu.Lock()
	w := m.workers[uid]
	delete(m.workers, uid)
	if w != nil {
		name := nameOf(w.published.Load().pod)
		m.Metrics.Forget(name, uid)
		m.succeed(name)
	}
	m.mu.Unlock()
	m.wakeDeferred()
}

// succeed begins with the pod that waits for its name; it is called with the lock held.
func (m *Manager) succeed(name types.NamespacedName) {
	if next := m.successors[name]; next != nil && !m.taken(name) {
		delete(m.successors, name)
		m.employ(next)
	}
}

// List returns the pods of the node as they are known. They are not to be changed.
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

// Find returns a pod of the node by name, nil if it is not there. It is not to be changed.
func (m *Manager) Find(namespace, name string) *v1.Pod {
	for _, pod := range m.List() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod
		}
	}
	return nil
}
