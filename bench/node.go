package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/cluster"
)

// Sizes of what the node section does.
const (
	singles       = 9   // pods that start and end alone
	manyPods      = 100 // that start and end at once
	dockerClients = 4   // that start and end as many pods' containers at once
	apiClients    = 8   // that create and delete pods at once
	idleTime      = 30 * time.Second
	// settleTime is left for what follows the start of pods, such as events about them, before a node counts as idle.
	settleTime = 5 * time.Second
	// podsTimeout bounds how long the pods of a node may take to start, or to end.
	podsTimeout = 5 * time.Minute
	// stopGrace is what a container gets to end, in seconds.
	stopGrace = 30
	// hollowNodes and fewerNodes are the sizes of clusters whose difference tells what a hollow node takes.
	hollowNodes, fewerNodes = 250, 50
)

// node measures what a kubelet on Docker adds to what the engine takes for the same containers, of a pod and of many at
// once, and what the programs of the node take while nothing happens.
func node(ctx context.Context, o Options) ([]Measure, error) {
	r, err := startNodeRig(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close(ctx)
	var out []Measure
	for _, measure := range []func(context.Context) ([]Measure, error){r.single, r.many, r.idle, r.full, r.end} {
		more, err := measure(ctx)
		out = append(out, more...)
		if err != nil {
			return out, err
		}
	}
	hollow, err := hollowMemory(ctx, o)
	return append(out, hollow...), err
}

// nodeRig is a cluster with one node.
type nodeRig struct {
	c      *cluster.Cluster
	api    kubernetes.Interface
	docker *client.Client // of the engine that the node is a container of
	bare   bareScript
	pods   []string // that run
	bound  bareTimes
}

func startNodeRig(ctx context.Context) (_ *nodeRig, err error) {
	r := &nodeRig{}
	if r.docker, err = client.New(client.FromEnv); err != nil {
		return nil, err
	}
	if r.c, err = cluster.Start(ctx, cluster.WithNodes(1)); err != nil {
		_ = r.docker.Close()
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close(ctx)
		}
	}()
	config := r.c.RESTConfig()
	config.QPS = -1
	if r.api, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if _, err = createToRunning(ctx, r.api, "first"); err != nil {
		return nil, err
	}
	r.bare, err = newBareScript(ctx, r.c.Node(1))
	return r, err
}

func (r *nodeRig) close(ctx context.Context) {
	r.c.Stop(context.WithoutCancel(ctx))
	_ = r.docker.Close()
}

// single starts and ends pods one after the other, and between them the same containers with Docker's client.
func (r *nodeRig) single(ctx context.Context) ([]Measure, error) {
	var starts, ends, bareStarts, bareEnds []time.Duration
	for i := range singles {
		bare, err := r.bare.run(ctx, i, i)
		if err != nil {
			return nil, err
		}
		bareStarts, bareEnds = append(bareStarts, bare.start), append(bareEnds, bare.end)
		name := fmt.Sprintf("single-%d", i)
		start, err := createToRunning(ctx, r.api, name)
		if err != nil {
			return nil, err
		}
		end, err := r.deleteAll(ctx, []string{name})
		if err != nil {
			return nil, err
		}
		starts, ends = append(starts, start), append(ends, end)
	}
	return []Measure{
		{Name: "create → Running, median", Value: milliseconds(middle(starts)), Unit: "ms",
			Limit: milliseconds(middle(bareStarts)), Against: "docker run of both containers, ms", Aim: "≤ 2x"},
		{Name: "delete → gone, median", Value: milliseconds(middle(ends)), Unit: "ms",
			Limit: milliseconds(middle(bareEnds)), Against: "docker stop and rm of both, ms", Aim: "≤ 2x"},
	}, nil
}

func middle(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// many starts as many pods as there are containers started by several of Docker's clients at once before. The time that
// all processors of the node worked is told, too: it depends less on what else the machine does.
func (r *nodeRig) many(ctx context.Context) ([]Measure, error) {
	var err error
	if r.bound, err = r.bareMany(ctx); err != nil {
		return nil, err
	}
	calls, err := r.engineCalls(ctx)
	if err != nil {
		return nil, err
	}
	worked, err := r.nodeCPU(ctx)
	if err != nil {
		return nil, err
	}
	for i := range manyPods {
		r.pods = append(r.pods, fmt.Sprintf("many-%d", i))
	}
	took, err := r.createAll(ctx, r.pods, running)
	if err != nil {
		return nil, err
	}
	out := []Measure{{Name: fmt.Sprintf("create → Running of %d pods", manyPods), Value: took.Seconds(), Unit: "s",
		Limit: r.bound.start.Seconds(), Against: fmt.Sprintf("docker run by %d clients, s", dockerClients), Aim: "≤ 1.3x"}}
	after, err := r.nodeCPU(ctx)
	if err != nil {
		return out, err
	}
	callsAfter, err := r.engineCalls(ctx)
	return append(out,
		Measure{Name: "processor of the node per pod", Value: milliseconds(after-worked) / manyPods, Unit: "ms",
			Limit: milliseconds(r.bound.startCPU) / manyPods, Against: "docker run, ms"},
		Measure{Name: "operations of the engine per pod", Value: (callsAfter - calls) / manyPods}), err
}

// bareMany starts and ends the containers of many pods.
func (r *nodeRig) bareMany(ctx context.Context) (bareTimes, error) {
	return r.bare.runAll(ctx, singles, singles+manyPods-1, r.nodeCPU)
}

// end ends all pods.
func (r *nodeRig) end(ctx context.Context) ([]Measure, error) {
	pods := r.pods[:manyPods]
	worked, err := r.nodeCPU(ctx)
	if err != nil {
		return nil, err
	}
	took, err := r.deleteAll(ctx, pods)
	if err != nil {
		return nil, err
	}
	after, err := r.nodeCPU(ctx)
	return []Measure{
		{Name: fmt.Sprintf("delete → gone of %d pods", manyPods), Value: took.Seconds(), Unit: "s",
			Limit: r.bound.end.Seconds(), Against: fmt.Sprintf("docker stop, rm by %d clients, s", dockerClients),
			Aim: "≤ 1.3x"},
		{Name: "processor of the node per end of a pod", Value: milliseconds(after-worked) / manyPods, Unit: "ms",
			Limit: milliseconds(r.bound.endCPU) / manyPods, Against: "docker stop and rm, ms"},
	}, err
}

// idle measures the node's programs while its pods run and nothing happens.
func (r *nodeRig) idle(ctx context.Context) ([]Measure, error) {
	if err := pause(ctx, settleTime); err != nil {
		return nil, err
	}
	calls, err := r.engineCalls(ctx)
	if err != nil {
		return nil, err
	}
	before, err := programsOn(ctx, r.c.Node(1))
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := pause(ctx, idleTime); err != nil {
		return nil, err
	}
	after, err := programsOn(ctx, r.c.Node(1))
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	callsAfter, err := r.engineCalls(ctx)
	out := idleMeasures(before, after, took)
	return append(out, Measure{Name: "idle, operations of the engine", Value: (callsAfter - calls) / took.Minutes(),
		Unit: "1/min"}), err
}

// full creates pods until the node takes no more.
func (r *nodeRig) full(ctx context.Context) ([]Measure, error) {
	n, err := r.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	of := fields.OneTermEqualSelector("spec.nodeName", n.Items[0].Name).String()
	there, err := r.api.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: of})
	if err != nil {
		return nil, err
	}
	most := int(n.Items[0].Status.Allocatable.Pods().Value())
	var more []string
	for i := len(there.Items); i < most; i++ {
		more = append(more, fmt.Sprintf("full-%d", i))
	}
	if _, err := r.createAll(ctx, more, ready); err != nil {
		return nil, err
	}
	r.pods = append(r.pods, more...)
	there, err = r.api.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: of})
	if err != nil {
		return nil, err
	}
	are := 0
	for i := range there.Items {
		if ready(watch.Modified, &there.Items[i]) {
			are++
		}
	}
	return []Measure{{Name: "pods Ready at once", Value: float64(are), Unit: "pods", Limit: float64(most),
		Against: "allocatable", Aim: "1x"}}, nil
}

// A podState tells whether an event shows that a pod is as it is waited for.
type podState func(watch.EventType, *corev1.Pod) bool

func running(_ watch.EventType, p *corev1.Pod) bool  { return p.Status.Phase == corev1.PodRunning }
func gone(event watch.EventType, _ *corev1.Pod) bool { return event == watch.Deleted }
func ready(_ watch.EventType, p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// createAll creates pods and returns how long it took until all were in a state.
func (r *nodeRig) createAll(ctx context.Context, names []string, state podState) (time.Duration, error) {
	return r.await(ctx, names, state, func(ctx context.Context, name string) error {
		_, err := r.api.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, servingPod(name), metav1.CreateOptions{})
		return err
	})
}

// deleteAll deletes pods and returns how long it took until the last was gone.
func (r *nodeRig) deleteAll(ctx context.Context, names []string) (time.Duration, error) {
	options := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](stopGrace)}
	return r.await(ctx, names, gone, func(ctx context.Context, name string) error {
		return r.api.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, name, options)
	})
}

// await acts on pods, several at a time, and returns how long it took until a watch showed all of them in a state.
func (r *nodeRig) await(ctx context.Context, names []string, state podState,
	act func(ctx context.Context, name string) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	w, err := r.api.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	begin := time.Now()
	clients, actCtx := errgroup.WithContext(ctx)
	clients.SetLimit(apiClients)
	acted := make(chan error, 1)
	go func() {
		for _, name := range names {
			clients.Go(func() error { return act(actCtx, name) })
		}
		err := clients.Wait()
		if err != nil {
			cancel() // there is nothing to wait for
		}
		acted <- err
	}()
	waiting := sets.New(names...)
	for event := range w.ResultChan() {
		if p, ok := event.Object.(*corev1.Pod); ok && state(event.Type, p) && waiting.Delete(p.Name).Len() == 0 {
			return time.Since(begin), <-acted
		}
	}
	err = ctx.Err()
	cancel()
	if failed := <-acted; failed != nil {
		err = failed
	}
	return 0, fmt.Errorf("%d of %d pods are not yet as they should be: %w", waiting.Len(), len(names), err)
}

// engineCalls is how often the kubelet has asked its engine for something.
func (r *nodeRig) engineCalls(ctx context.Context) (float64, error) {
	nodes, err := r.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	metrics := r.api.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", nodes.Items[0].Name, "proxy/metrics")
	data, err := metrics.DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("metrics of the kubelet: %w", err)
	}
	sum := 0.0
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "kubelet_runtime_operations_total{") {
			continue
		}
		var n float64
		if _, err := fmt.Sscan(line[strings.LastIndex(line, "}")+1:], &n); err != nil {
			return 0, fmt.Errorf("metrics of the kubelet: %w: %s", err, line)
		}
		sum += n
	}
	return sum, nil
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hollowMemory is what a node that simulates its pods takes more, with a pod.
func hollowMemory(ctx context.Context, o Options) ([]Measure, error) {
	o.PodsPerNode = 1
	fewer, err := scaled(ctx, o, "memory", fewerNodes)
	if err != nil {
		return nil, err
	}
	all, err := scaled(ctx, o, "memory", hollowNodes)
	if err != nil {
		return nil, err
	}
	each := func(name, title string) Measure {
		more := valueOf(all, name) - valueOf(fewer, name)
		return Measure{Name: title, Value: more / (hollowNodes - fewerNodes), Unit: "MiB", Aim: "< 1 MiB"}
	}
	return []Measure{each(residentMeasure, "resident, each hollow node"),
		each(peakMeasure, "peak resident, each hollow node with a pod")}, nil
}
