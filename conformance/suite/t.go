package suite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Manager is the field manager and user agent of the suite's writes.
const Manager = "conformance"

// Cluster is the cluster under test. It is shared by all cases and safe for concurrent use.
type Cluster struct {
	Config  *rest.Config
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Image is the suite's test image, as the nodes name it.
	Image    string
	Features map[Feature]bool
}

// Connect makes the clients for a cluster. The suite throttles nothing on its side, and drops warnings that config has
// no handler for.
func Connect(config *rest.Config, image string) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = Manager
	config.QPS = -1
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandler = rest.NoWarnings{} // cases use deprecated APIs, too
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{Config: config, Client: client, Dynamic: dyn, Image: image, Features: map[Feature]bool{}}, nil
}

// Detect finds the features of the cluster by their effects: see probe for the components, RunningNodes for the nodes.
func (c *Cluster) Detect(ctx context.Context) error {
	if err := c.probe(ctx); err != nil {
		return fmt.Errorf("find out what the cluster has: %w", err)
	}
	nodes, err := c.RunningNodes(ctx)
	if err != nil {
		return err
	}
	c.Features[RunsPods] = len(nodes) >= 1
	c.Features[TwoNodes] = len(nodes) >= 2
	c.Features[PodNetwork] = len(nodes) >= 1
	c.Features[ServiceNetwork] = len(nodes) >= 1
	_, err = c.Client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	c.Features[ClusterDNS] = err == nil && len(nodes) >= 1
	c.Features[NodeAccess] = reachesNodes(ctx, nodes)
	if err := c.probeNetwork(ctx); err != nil {
		return err
	}
	if err := c.probeStorage(ctx); err != nil {
		return err
	}
	if err := c.probeCSI(ctx); err != nil {
		return err
	}
	if err := c.probeDevices(ctx, nodes); err != nil {
		return err
	}
	if err := c.probeMetrics(); err != nil {
		return err
	}
	c.Features[ProtobufWire] = true
	c.Features[TableOutput] = true
	return nil
}

// RunningNodes lists the ready nodes that run real containers and take any pod.
func (c *Cluster) RunningNodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var nodes []corev1.Node
	for _, node := range list.Items {
		if runsPods(&node) {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

func runsPods(node *corev1.Node) bool {
	if node.Spec.Unschedulable || node.Labels["quintet.dev/hollow"] == "true" ||
		strings.HasPrefix(node.Status.NodeInfo.ContainerRuntimeVersion, "hollow://") {
		return false // its pods only pretend to run
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// T is a running case: the cluster, a namespace of its own, and assertions that end it.
type T struct {
	*Cluster
	gomega.Gomega
	// Namespace is the case's own; it is deleted after the case.
	Namespace string

	cleanups []func(ctx context.Context)
	fault    error
	abort    func(message string)
}

// Cleanup calls f after the case, last one first, whether it passed or not. It is for what lives outside the namespace.
func (t *T) Cleanup(f func(ctx context.Context)) { t.cleanups = append(t.cleanups, f) }

// Fault ends the case without a verdict: the suite, not the cluster, is in the way.
func (t *T) Fault(err error) {
	t.fault = err
	t.abort("the case can't be judged: " + err.Error())
}

// Must ends the case as failed when err is not nil, saying what was being done.
func (t *T) Must(err error, format string, args ...any) {
	if err != nil {
		t.abort(fmt.Sprintf(format, args...) + ": " + err.Error())
	}
}

// WaitFor polls get until its value matches, and fails the case with the last value seen.
func WaitFor[V any](ctx context.Context, t *T, what string, get func(ctx context.Context) (V, error),
	match gtypes.GomegaMatcher) V {
	var last V
	t.Eventually(func() (V, error) {
		v, err := get(ctx)
		if err == nil {
			last = v
		}
		return v, err
	}).WithContext(ctx).WithTimeout(DefaultTimeout).WithPolling(50*time.Millisecond).Should(match, what)
	return last
}

// Never checks for a short while that get's value does not come to match.
func Never[V any](ctx context.Context, t *T, what string, get func(ctx context.Context) (V, error),
	match gtypes.GomegaMatcher) {
	t.Consistently(func() (V, error) { return get(ctx) }).
		WithContext(ctx).WithTimeout(2*time.Second).WithPolling(100*time.Millisecond).ShouldNot(match, what)
}
