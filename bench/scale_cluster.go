package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
)

// filledSpace is the namespace that the pods of a cluster under measurement are in.
const filledSpace = "scale"

// hollowCluster is a cluster of hollow nodes in a process of its own.
type hollowCluster struct {
	*process
	dir    string // with the process's state
	config *rest.Config
	client *kubernetes.Clientset
	nodes  int

	kubeconfig string        // a file
	ready      time.Duration // from the start of the process until all nodes were ready
}

// startHollow starts a cluster, with further arguments of `quintet up`; the caller closes it.
func startHollow(
	ctx context.Context, o Options, store string, nodes int, more ...string,
) (_ *hollowCluster, err error) {
	c := &hollowCluster{nodes: nodes}
	if c.dir, err = os.MkdirTemp("", "quintet-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	const name = "scale"
	if c.process, err = startWith([]string{"XDG_STATE_HOME=" + c.dir}, o.program("quintet"), append([]string{"up",
		"--in-process", "--name=" + name, "--store=" + store, "--nodes=" + strconv.Itoa(nodes),
		"--timeout=" + scaleTimeout.String()}, more...)...); err != nil {
		return nil, err
	}
	c.kubeconfig = filepath.Join(c.dir, "quintet", name, "kubeconfig")
	if c.ready, err = c.appears(ctx, c.kubeconfig); err != nil {
		return nil, err
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		return nil, err
	}
	c.config.QPS = -1
	c.client, err = kubernetes.NewForConfig(c.config)
	return c, err
}

// close ends the cluster and removes its files.
func (c *hollowCluster) close() {
	if c.process != nil {
		c.process.close()
	}
	_ = os.RemoveAll(c.dir)
}

// makeSpace makes the namespace that deploy fills.
func (c *hollowCluster) makeSpace(ctx context.Context) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: filledSpace}}
	_, err := c.client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{})
	return err
}

// deploy makes pods, in deployments of at most replicas, and returns when all of them are ready.
func (c *hollowCluster) deploy(ctx context.Context, pods, replicas int) error {
	deployments := c.client.AppsV1().Deployments(filledSpace)
	for made := 0; made < pods; made += replicas {
		if _, err := deployments.Create(ctx, webDeployment(fmt.Sprintf("web-%d", made/replicas), min(replicas, pods-made)),
			metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return c.filled(ctx, pods)
}

// filled waits until so many pods are ready. Its watch goes on where the API server ends it, as it does after a while.
func (c *hollowCluster) filled(ctx context.Context, pods int) error {
	ready := readyCount{}
	list := cache.NewListWatchFromClient(c.client.AppsV1().RESTClient(), "deployments", filledSpace,
		fields.Everything())
	_, err := watchtools.UntilWithSync(ctx, list, &appsv1.Deployment{}, nil, func(event watch.Event) (bool, error) {
		d, ok := event.Object.(*appsv1.Deployment)
		return ok && ready.set(d) == pods, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d pods are ready: %w", ready.sum(), pods, err)
	}
	return nil
}

// empty deletes the namespace with all that deploy made, and returns when it is gone.
func (c *hollowCluster) empty(ctx context.Context) error {
	spaces := c.client.CoreV1().Namespaces()
	if err := spaces.Delete(ctx, filledSpace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	for {
		_, err := spaces.Get(ctx, filledSpace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("namespace %s is not gone: %w", filledSpace, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// readyCount is how many pods of each deployment are ready.
type readyCount map[string]int

func (c readyCount) set(d *appsv1.Deployment) int {
	c[d.Name] = int(d.Status.ReadyReplicas)
	return c.sum()
}

func (c readyCount) sum() int {
	all := 0
	for _, n := range c {
		all += n
	}
	return all
}

func webDeployment(name string, replicas int) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: testImage}}},
			},
		},
	}
}

// toll is what a cluster has used of the machine until a moment, and what it holds at it.
type toll struct {
	at         time.Time
	cpu        time.Duration
	resident   float64 // MiB
	allocated  float64 // bytes, since the start
	objects    float64 // allocated, since the start
	goroutines float64
	requests   map[string]float64 // answered, by verb and resource
}

// toll reads the counters of the cluster's process, which its API server shows.
func (c *hollowCluster) toll(ctx context.Context) (toll, error) {
	t := toll{requests: map[string]float64{}}
	text, err := c.client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return t, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, labels, ok := sample(line)
		if !ok {
			continue
		}
		switch name {
		case "go_goroutines":
			t.goroutines = value
		case "go_memstats_alloc_bytes_total":
			t.allocated = value
		case "go_memstats_mallocs_total":
			t.objects = value
		case "apiserver_request_total":
			t.requests[kindOf(labels)] += value
		}
	}
	t.at = time.Now()
	if t.cpu, err = cpu(c.pid()); err != nil {
		return t, err
	}
	t.resident, err = resident(c.pid())
	return t, err
}

// profiled does work, and returns the tolls before and after it and the profile of meanwhile; nil if it was too short
// for one.
func (c *hollowCluster) profiled(
	ctx context.Context, length time.Duration, work func() error,
) (before, after toll, p *profile.Profile, err error) {
	if before, err = c.toll(ctx); err != nil {
		return before, after, nil, err
	}
	profiler := startProfiler(ctx, c.client.RESTClient(), length)
	err = work()
	p, profileErr := profiler.end()
	if err := errors.Join(err, profileErr); err != nil {
		return before, after, nil, err
	}
	after, err = c.toll(ctx)
	return before, after, p, err
}

// sample parses a line of Prometheus's text format; ok is false for one that is no sample.
func sample(line string) (name string, value float64, labels map[string]string, ok bool) {
	head, text, found := strings.Cut(strings.TrimSpace(line), "} ")
	if !found {
		head, text, found = strings.Cut(strings.TrimSpace(line), " ")
	}
	if !found || strings.HasPrefix(line, "#") {
		return "", 0, nil, false
	}
	name, rest, _ := strings.Cut(head, "{")
	labels = map[string]string{}
	for pair := range strings.SplitSeq(rest, ",") {
		if key, quoted, both := strings.Cut(pair, "="); both {
			labels[key] = strings.Trim(quoted, `"`)
		}
	}
	value, err := strconv.ParseFloat(text, 64)
	return name, value, labels, err == nil
}

// kindOf is what a request is counted as.
func kindOf(labels map[string]string) string {
	kind := labels["verb"] + " " + labels["resource"]
	if sub := labels["subresource"]; sub != "" {
		kind += "/" + sub
	}
	return kind
}

// asked is the most frequent of the requests since before, for each of n; the rest is summed up.
func (t toll) asked(before toll, n float64) []Measure {
	const most = 8
	var all []Measure
	sum := 0.0
	for kind, value := range t.requests {
		each := (value - before.requests[kind]) / n
		sum += each
		all = append(all, Measure{Name: "requests for each pod: " + kind, Value: each, Unit: "requests"})
	}
	slices.SortFunc(all, func(a, b Measure) int { return strings.Compare(a.Name, b.Name) })
	all = slices.DeleteFunc(all, func(m Measure) bool { return m.Value < 0.1 })
	return append([]Measure{{Name: "requests for each pod", Value: sum, Unit: "requests"}}, all[:min(most, len(all))]...)
}
