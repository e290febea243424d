package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
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
	Image string
	// Features are those that were found, or declared.
	Features map[Feature]bool
	// Required are those that the cluster claims to have: cases that need them run, whether they were found or not.
	Required map[Feature]bool
	// Absent are those that it is known to lack: Detect does not wait for their effects.
	Absent map[Feature]bool
	// Lifetimes of components, which end with the reason as their cause when a component has ended; those of components
	// that are not in it are not known. Detect does not wait for the effects of one that has ended.
	Lifetimes map[Component]context.Context

	// pretending are the nodes of which Detect saw that they run no containers, by name.
	pretending map[string]bool
	// pullFailure is why a node could not get the test image when Detect tried; "" if all could.
	pullFailure string
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
	return &Cluster{Config: config, Client: client, Dynamic: dyn, Image: image, Features: map[Feature]bool{},
		Required: map[Feature]bool{}, Absent: map[Feature]bool{}}, nil
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
	t.abort("the case has no verdict: " + err.Error())
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
