// Package fleet is what the kubelets of one process share: the connection to the API server, the watches of nodes,
// pods and what pods refer to, and the recorder of events. Each kubelet still makes its own requests, as its node's
// user.
package fleet

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/objects"
	"quintet.dev/quintet/components/kubelet/source"
	"quintet.dev/quintet/internal/kubeconfig"
)

// nodeUser and nodeGroup are what the API server knows a node by
// (https://kubernetes.io/docs/reference/access-authn-authz/node/).
const (
	nodeUser  = "system:node:"
	nodeGroup = "system:nodes"
)

// EventQPS and EventBurst limit the events of each object, as a kubelet's flags do by default.
const (
	EventQPS   = 50
	EventBurst = 100
)

// Fleet is shared by kubelets. It is safe for concurrent use, and at rest while no kubelet is a member.
type Fleet struct {
	clock   clock.PassiveClock
	connect func() (*rest.Config, error)

	pods    source.Shared[*v1.Pod]
	nodes   source.Shared[*v1.Node]
	objects objects.Watches
	slots   chan struct{} // taken by requests of nodes
	turns   chan struct{} // taken by workers of pods while they decide
	reports chan struct{} // taken by nodes while they report
	writes  chan struct{} // taken by writers of pods' statuses while they send one

	mu      sync.Mutex // guards the rest
	members int
	config  *rest.Config
	client  kubernetes.Interface
	events  record.EventBroadcaster
}

// workersEach is how many workers of pods decide at once for each processor.
const workersEach = 4

// How many nodes report at once, and how many statuses of pods are written. Together they are less than the requests
// that may be on their way, so that none of them waits while its time passes, and others find room.
const (
	reportsAtOnce = requestsAtOnce / 4
	writesAtOnce  = requestsAtOnce / 2
)

// New makes a fleet. connect is called by the first member; it returns the configuration of a client that may read
// nodes, pods, config maps and secrets, write events, and act for nodes (impersonate them).
func New(clock clock.PassiveClock, connect func() (*rest.Config, error)) *Fleet {
	f := &Fleet{clock: clock, connect: connect, slots: make(chan struct{}, requestsAtOnce),
		turns:   make(chan struct{}, workersEach*runtime.GOMAXPROCS(0)),
		reports: make(chan struct{}, reportsAtOnce),
		writes:  make(chan struct{}, writesAtOnce)}
	f.pods = source.Shared[*v1.Pod]{
		Watch: func() cache.ListerWatcher {
			bound := fields.OneTermNotEqualSelector("spec.nodeName", "")
			return source.Selected(f.common().CoreV1().Pods(metav1.NamespaceAll), bound, f.common())
		},
		Example: &v1.Pod{}, Node: func(pod *v1.Pod) string { return pod.Spec.NodeName },
	}
	f.nodes = source.Shared[*v1.Node]{
		Watch: func() cache.ListerWatcher {
			return source.Selected(f.common().CoreV1().Nodes(), fields.Everything(), f.common())
		},
		Example: &v1.Node{}, Node: func(node *v1.Node) string { return node.Name },
	}
	f.objects.Client = f.common
	return f
}

// common is the client of what is shared.
func (f *Fleet) common() kubernetes.Interface {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.client
}

// Join takes a kubelet in; it must call leave when it has ended. What is shared logs where ctx of the first says.
func (f *Fleet) Join(ctx context.Context) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members == 0 {
		if err := f.begin(ctx); err != nil {
			return nil, err
		}
	}
	f.members++
	return f.leave, nil
}

// begin is called with the lock held.
func (f *Fleet) begin(ctx context.Context) error {
	config, err := f.connect()
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	f.config = kubeconfig.AddUserAgent(rest.CopyConfig(config), "kubelet", "kubelet")
	f.config.QPS = -1
	if f.client, err = kubernetes.NewForConfig(f.config); err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	f.events = record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)), // until leave shuts it down
		record.WithCorrelatorOptions(record.CorrelatorOptions{QPS: EventQPS, BurstSize: EventBurst, Clock: f.clock}))
	f.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: f.client.CoreV1().Events("")})
	return nil
}

func (f *Fleet) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members--; f.members > 0 {
		return
	}
	f.events.Shutdown()
	f.objects.Wait()
	f.client, f.events = nil, nil
}

// Client makes requests as a node, over the connection of all. qps and burst limit them, as a kubelet's flags say.
func (f *Fleet) Client(node string, qps float32, burst int) (kubernetes.Interface, error) {
	f.mu.Lock()
	config := rest.CopyConfig(f.config)
	f.mu.Unlock()
	config.Impersonate = rest.ImpersonationConfig{UserName: nodeUser + node, Groups: []string{nodeGroup}}
	config.QPS, config.Burst = qps, burst
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &limited{slots: f.slots, next: next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}

// Recorder records events of a node's kubelet.
func (f *Fleet) Recorder(node string) record.EventRecorderLogger {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: node})
}

// Pods are the pods of a node.
func (f *Fleet) Pods(node string) source.Source[*v1.Pod] { return f.pods.Of(node) }

// Node is a node's own object.
func (f *Fleet) Node(name string) source.Source[*v1.Node] { return f.nodes.Of(name) }

// Objects are watched for the pods of all nodes.
func (f *Fleet) Objects() *objects.Watches { return &f.objects }

// Turns are what the workers of all nodes' pods take while they decide: as many at once as there is room for.
func (f *Fleet) Turns() chan struct{} { return f.turns }

// Reports are what all nodes take while they report their status.
func (f *Fleet) Reports() chan struct{} { return f.reports }

// Writes are what the writers of all nodes take while they send the status of a pod.
func (f *Fleet) Writes() chan struct{} { return f.writes }
