// Package node registers the machine as a Node, keeps its status true and its Lease alive.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/cgroups"
	kruntime "quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/source"
)

// Config configures the Node object and its status.
type Config struct {
	Client kubernetes.Interface
	// Watch hands in the node as it changes.
	Watch    source.Source[*v1.Node]
	Clock    clock.WithTicker
	Engine   kruntime.Engine
	Recorder record.EventRecorder

	Name            string
	Register        bool
	Labels          map[string]string
	Taints          []v1.Taint
	Unschedulable   bool
	Addresses       []v1.NodeAddress
	Port            int32
	ProviderID      string
	PodCIDRs        []string // used while the API gives none
	MaxPods         int32
	Bounds          cgroups.Bounds  // of the machine, which has no more, whatever the engine says
	Reserved        v1.ResourceList // not allocatable
	HugePages       v1.ResourceList // by resource name
	SwapBytes       int64           // that the machine can swap; 0 is not reported
	RootDir         string
	MaxImages       int32
	UpdateFrequency time.Duration
	ReportFrequency time.Duration
	LeaseSeconds    int32
	// EngineGrace is how long the engine may give no answer before the node is not ready.
	EngineGrace time.Duration
	// VolumesInUse are the volumes that must not be detached from the node; nil for none.
	VolumesInUse func() []v1.UniqueVolumeName
	// Withheld is what else is not allocatable of a capacity; nil is nothing.
	Withheld func(capacity v1.ResourceList) v1.ResourceList
	// Devices returns what drivers of devices have on the node, and what of it pods may have; nil is nothing.
	Devices func() (capacity, allocatable v1.ResourceList)
	// ResetDevices tells that the extended resources of an earlier status are not true any more; nil: they are.
	ResetDevices func() bool
	// Pressure tells what the node lacks; nil: never anything.
	Pressure func() []v1.NodeConditionType
	// ReportSlots bounds, by its capacity, how many nodes report at once; nil: all may. Kubelets of one process share it:
	// where thousands begin together, the time that a report has would be over before it has a slot, again and again.
	ReportSlots chan struct{}
	// Healthy tells what else keeps the node from running pods; nil is nothing.
	Healthy func() error
}

// Node keeps the API's view of this machine. It is safe for concurrent use.
type Node struct {
	Config
	machine v1.NodeSystemInfo

	// What was told of in events; only Run's goroutine reads it.
	rebootTold, unschedulable bool

	mu           sync.Mutex
	current      *v1.Node
	deleted      bool // from the API: it is not registered again, but its pods may yet end
	reported     time.Time
	networkErr   error
	engineSeen   time.Time // when the engine gave its last answer; only Run's goroutine reads it
	networkReady chan struct{}
	known        chan struct{}
	wake         chan struct{}
	flush        chan chan struct{} // asks for a report; what is sent is closed after it

	network chan struct{} // holds a value while the pod network is set up
	cidrs   []string      // that it was set up for
}

// New makes a node that is not registered yet.
func New(config Config) *Node {
	return &Node{
		Config: config, networkReady: make(chan struct{}), known: make(chan struct{}), wake: make(chan struct{}, 1),
		flush:      make(chan chan struct{}),
		network:    make(chan struct{}, 1),
		networkErr: fmt.Errorf("the node has no pod CIDR yet: is the node IPAM controller running?"),
	}
}

// NetworkReady is closed once the pod network stands.
func (n *Node) NetworkReady() <-chan struct{} { return n.networkReady }

// Known is closed once the API server answered with the node: Current is not nil from then on.
func (n *Node) Known() <-chan struct{} { return n.known }

// Current is the node as the API server has it, or had it last; nil before it was registered.
func (n *Node) Current() *v1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current
}

// Fetch is the node as the API server has it now. It is not noted: the watch brings it in its order.
func (n *Node) Fetch(ctx context.Context) (*v1.Node, error) {
	return n.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
}

// Allocatable is what pods may have.
func (n *Node) Allocatable() v1.ResourceList {
	if node := n.Current(); node != nil {
		return node.Status.Allocatable
	}
	return nil
}

// Run registers the node and keeps it until ctx ends.
func (n *Node) Run(ctx context.Context) error {
	info, err := n.Engine.Info(ctx)
	if err != nil {
		return fmt.Errorf("container engine: %w", err)
	}
	n.machine, n.engineSeen = systemInfo(info), n.Clock.Now()
	n.event("Starting", "Starting kubelet.")
	n.setPodCIDRs(ctx, n.PodCIDRs)
	if err := n.register(ctx); err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() { n.keepLease(ctx) })
	group.Go(func() { n.watch(ctx) })
	n.loop(ctx)
	return ctx.Err()
}

// register creates the node, or takes over one that is there; it retries until the API server answers.
func (n *Node) register(ctx context.Context) error {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		err := n.tryRegister(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		klog.FromContext(ctx).Info("Node can't be registered yet, will be retried", "node", n.Name, "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.Clock.After(delay):
		}
	}
}

// managedAttach tells the attach-detach controller that volumes are attached to the node by it
// (https://kubernetes.io/docs/reference/labels-annotations-taints/).
const managedAttach = "volumes.kubernetes.io/controller-managed-attach-detach"

func (n *Node) tryRegister(ctx context.Context) error {
	nodes := n.Client.CoreV1().Nodes()
	if !n.Register {
		node, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.take(ctx, node)
		return nil
	}
	wanted := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, Labels: n.labels(), Annotations: map[string]string{managedAttach: "true"},
		},
		Spec: v1.NodeSpec{Taints: n.Taints, ProviderID: n.ProviderID, Unschedulable: n.Unschedulable},
	}
	wanted.Status = n.observeStatus(ctx, wanted)
	node, err := nodes.Create(ctx, wanted, metav1.CreateOptions{})
	if err == nil {
		n.take(ctx, node)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		return err
	}
	existing, getErr := nodes.Get(ctx, n.Name, metav1.GetOptions{})
	if getErr != nil {
		return err
	}
	updated := existing.DeepCopy()
	if updated.Labels == nil {
		updated.Labels = map[string]string{}
	}
	for key, value := range n.labels() {
		updated.Labels[key] = value
	}
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, managedAttach, "true")
	if !equality.Semantic.DeepEqual(existing.ObjectMeta, updated.ObjectMeta) {
		if existing, err = n.patch(ctx, existing, updated); err != nil {
			return err
		}
	}
	if existing, err = n.resetDevices(ctx, existing); err != nil {
		return err
	}
	n.take(ctx, existing)
	return nil
}

func (n *Node) patch(ctx context.Context, before, after *v1.Node, subresources ...string) (*v1.Node, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	now, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(old, now, v1.Node{})
	if err != nil {
		return nil, err
	}
	return n.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{},
		subresources...)
}

// take notes the node as the API server has it. Before the first time it sets the pod network up: once the node is
// known pods are looked at, and the ranges tell which of their addresses is the first. Later the report does so, which
// waits for the engine no longer than it may.
func (n *Node) take(ctx context.Context, node *v1.Node) {
	before := n.Current()
	if before == nil {
		n.setPodCIDRs(ctx, podCIDRs(node))
	}
	n.mu.Lock()
	again := n.deleted
	if n.current == nil {
		close(n.known)
	}
	n.current, n.deleted = node, false
	n.mu.Unlock()
	if again || before != nil && !slices.Equal(podCIDRs(before), podCIDRs(node)) {
		n.ReportNow()
	}
}

// podCIDRs are the ranges of the node's pods, that of the primary family first.
func podCIDRs(node *v1.Node) []string {
	if len(node.Spec.PodCIDRs) == 0 && node.Spec.PodCIDR != "" {
		return []string{node.Spec.PodCIDR}
	}
	return node.Spec.PodCIDRs
}

// gone notes that the node was deleted. As upstream's, this kubelet does not register again before it is restarted;
// if the node is recreated, it is reported on again. Pods that run go on: the API decides on them.
func (n *Node) gone(ctx context.Context) {
	n.mu.Lock()
	known := n.deleted
	n.deleted = true
	n.mu.Unlock()
	if known {
		return
	}
	klog.FromContext(ctx).Info("The node was deleted: nothing is reported until it exists again; restart the kubelet to "+
		"register it", "node", n.Name)
}

// registered is the node, if the API has it.
func (n *Node) registered() *v1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.deleted {
		return nil
	}
	return n.current
}

// ReportNow makes Run write the status without waiting for its time.
func (n *Node) ReportNow() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Flush makes Run write the status, and returns when that was tried, or ctx ends.
func (n *Node) Flush(ctx context.Context) {
	done := make(chan struct{})
	select {
	case n.flush <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// networkTimeout bounds an attempt to set the pod network up.
const networkTimeout = time.Minute

func (n *Node) setPodCIDRs(ctx context.Context, cidrs []string) {
	if len(cidrs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	select {
	case n.network <- struct{}{}:
		defer func() { <-n.network }()
	case <-ctx.Done():
		return // an earlier attempt still waits for the engine
	}
	if slices.Equal(n.cidrs, cidrs) {
		return
	}
	err := n.Engine.SetPodCIDRs(ctx, cidrs)
	n.mu.Lock()
	n.networkErr = err
	n.mu.Unlock()
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			klog.FromContext(ctx).Error(err, "Pod network can't be set up, will be retried", "podCIDRs", cidrs)
		}
		return
	}
	if n.cidrs == nil {
		close(n.networkReady)
	}
	n.cidrs = cidrs
	n.ReportNow() // it is ready now
}

func (n *Node) watch(ctx context.Context) {
	n.Watch(ctx, source.Handler[*v1.Node]{
		Set: func(node *v1.Node) { n.take(ctx, node) }, Gone: func(*v1.Node) { n.gone(ctx) },
	})
}

// loop reports the status when it changed, and now and then when it did not.
func (n *Node) loop(ctx context.Context) {
	ticker := n.Clock.NewTicker(n.UpdateFrequency)
	defer ticker.Stop()
	var flushed chan struct{}
	for {
		err := n.reportInSlot(ctx)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Node status can't be written, will be retried", "node", n.Name)
		}
		if flushed != nil {
			close(flushed)
			flushed = nil
		}
		select {
		case <-ctx.Done():
			return
		case flushed = <-n.flush:
		case <-n.wake:
		case <-ticker.C():
		}
	}
}

// observeStatus asks the engine no longer than half of the time between two reports: the other half is for telling the
// API server that the engine does not answer.
func (n *Node) observeStatus(ctx context.Context, current *v1.Node) v1.NodeStatus {
	ctx, cancel := context.WithTimeout(ctx, n.UpdateFrequency/2)
	defer cancel()
	n.setPodCIDRs(ctx, podCIDRs(current))
	return n.status(ctx, current)
}

// reportInSlot reports once there is a slot.
func (n *Node) reportInSlot(ctx context.Context) error {
	if n.ReportSlots != nil {
		select {
		case n.ReportSlots <- struct{}{}:
			defer func() { <-n.ReportSlots }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return n.report(ctx)
}

func (n *Node) report(ctx context.Context) error {
	current := n.registered()
	if current == nil {
		return nil
	}
	now := n.Clock.Now()
	updated := current.DeepCopy()
	updated.Status = n.observeStatus(ctx, current)
	if same(&current.Status, &updated.Status) && now.Sub(n.reported) < n.ReportFrequency {
		return nil
	}
	before := current.DeepCopy()
	before.Spec, updated.Spec = v1.NodeSpec{}, v1.NodeSpec{}
	patchCtx, cancel := context.WithTimeout(ctx, n.UpdateFrequency)
	defer cancel()
	written, err := n.patch(patchCtx, before, updated, "status")
	if apierrors.IsNotFound(err) {
		n.gone(ctx)
		return nil
	}
	if err != nil {
		return err
	}
	n.reported = now
	n.mu.Lock()
	if n.current == current {
		n.current = written
	}
	n.mu.Unlock()
	if !slices.Equal(podCIDRs(current), podCIDRs(written)) {
		n.ReportNow() // the answer was faster than the watch, which won't see a change any more
	}
	return nil
}
