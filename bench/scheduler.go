package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// scheduledPods wait for nodes in each workload, as the scheduler starts.
	scheduledPods = 1000
	// zones that the nodes are spread over.
	zones = 10
	// nodeCPUs is what a node has.
	nodeCPUs = 4
	// schedulingTimeout bounds each workload, its preparation included.
	schedulingTimeout = 10 * time.Minute
	// placingLimit is how long a scheduler may run. The rate until then counts where pods are left without a node.
	placingLimit = time.Minute
)

// schedulingRig is an API server with nodes that nothing runs on.
type schedulingRig struct {
	*rig
	o       Options
	clients []*kubernetes.Clientset
	nodes   int
	port    int      // of the scheduler
	binder  *process // of volumes; nil for none
}

func (r *schedulingRig) close() {
	if r.binder != nil {
		r.binder.close()
	}
	r.rig.close()
}

// schedule measures how fast a scheduler places pods on many nodes. The pods are there before it starts, so that it
// is bounded by no client, and the time counts from the first that has a node; where that takes long, from the
// scheduler's start.
func (o Options) schedule(ctx context.Context, w workload) (_ []Measure, err error) {
	ctx, cancel := context.WithTimeout(ctx, schedulingTimeout)
	defer cancel()
	nodes, err := o.largest()
	if err != nil {
		return nil, err
	}
	nodes = max(nodes, scheduledPods)
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, "  %d pods on %d nodes\n", scheduledPods, nodes)
	}
	started, err := startRig(ctx, o, true)
	if err != nil {
		return nil, err
	}
	r := &schedulingRig{rig: started, o: o, nodes: nodes}
	defer r.close()
	if r.clients, err = started.clients(started.servers[0], o.Clients); err != nil {
		return nil, err
	}
	if err := r.fill(ctx, w); err != nil {
		return nil, err
	}
	return r.place(ctx, w)
}

// fill makes nodes and pods.
func (r *schedulingRig) fill(ctx context.Context, w workload) error {
	err := each(ctx, len(r.clients), r.nodes, func(ctx context.Context, worker, i int) error {
		_, err := r.clients[worker].CoreV1().Nodes().Create(ctx, emptyNode(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := prepare(ctx, r.clients[0], namespace); err != nil {
		return err
	}
	if w.offer != nil {
		if err := w.offer(ctx, r); err != nil {
			return err
		}
	}
	return each(ctx, len(r.clients), scheduledPods, func(ctx context.Context, worker, i int) error {
		p := waitingPod(fmt.Sprintf("waiting-%05d", i))
		p.Namespace = namespace
		if err := w.shape(ctx, r.clients[worker], p); err != nil {
			return err
		}
		_, err := r.clients[worker].CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// place starts the scheduler and measures until all pods have nodes, or its time is up.
func (r *schedulingRig) place(ctx context.Context, w workload) ([]Measure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, err := r.watchPlaced(ctx)
	if err != nil {
		return nil, err
	}
	before := progress{}
	if before.rest, err = cpu(r.servers[0].pid(), r.etcd.pid()); err != nil {
		return nil, err
	}
	scheduler, err := r.startScheduler()
	if err != nil {
		return nil, err
	}
	defer scheduler.close()
	before.at = scheduler.started
	end := scheduler.started.Add(placingLimit)
	if err := scheduler.poll(ctx, watching.reaches(1, end)); err != nil {
		return nil, err
	}
	if !w.slow {
		if before, err = r.progress(scheduler, watching); err != nil {
			return nil, err
		}
	}
	keep := r.profiled(ctx, w)
	if err := scheduler.poll(ctx, watching.reaches(scheduledPods, end)); err != nil {
		return nil, fmt.Errorf("%d of %d pods have a node: %w", watching.placed.Load(), scheduledPods, err)
	}
	after, err := r.progress(scheduler, watching)
	if err != nil {
		return nil, err
	}
	memory, err := peakResident(scheduler.pid())
	if err := errors.Join(err, keep()); err != nil {
		return nil, err
	}
	return before.until(after, memory)
}

// until is what a scheduler did between two moments, and the MiB that it took.
func (p progress) until(end progress, memory float64) ([]Measure, error) {
	n := float64(end.placed - p.placed)
	if n <= 0 {
		return nil, fmt.Errorf("no pod got a node within %v", placingLimit)
	}
	return []Measure{
		{Name: "pods placed", Value: n / end.at.Sub(p.at).Seconds(), Unit: frequency, Aim: "≥ 10x upstream's"},
		{Name: fmt.Sprintf("pods with a node after at most %v", placingLimit), Value: float64(end.placed), Unit: "pods",
			Limit: scheduledPods, Against: "pods that wait", More: true},
		{Name: "scheduler CPU, each pod", Value: milliseconds(end.cpu-p.cpu) / n, Unit: "ms"},
		{Name: "API server and etcd CPU, each pod", Value: milliseconds(end.rest-p.rest) / n, Unit: "ms"},
		{Name: "scheduler peak resident", Value: memory, Unit: "MiB", Aim: "≤ 1/3 of upstream's"},
	}, nil
}

// progress is how far a scheduler has come, and the processor time that it took, and what it talks to.
type progress struct {
	at        time.Time
	placed    int64
	cpu, rest time.Duration
}

func (r *schedulingRig) progress(scheduler *process, watching *placement) (now progress, err error) {
	now.at, now.placed = time.Now(), watching.placed.Load()
	if now.cpu, err = cpu(scheduler.pid()); err != nil {
		return now, err
	}
	now.rest, err = cpu(r.servers[0].pid(), r.etcd.pid())
	return now, err
}

// profiled takes profiles of the scheduler until the returned function is called.
func (r *schedulingRig) profiled(ctx context.Context, w workload) (end func() error) {
	if r.o.Profiles == "" {
		return func() error { return nil }
	}
	client, err := r.client(&apiServer{url: fmt.Sprintf("https://127.0.0.1:%d", r.port)}, runtime.ContentTypeJSON)
	if err != nil {
		return func() error { return err }
	}
	return keepProfiles(ctx, client.RESTClient(), r.o.Profiles,
		filepath.Base(r.o.program(schedulerProgram))+"-"+w.name)
}

// placement counts the waiting pods that have a node.
type placement struct{ placed atomic.Int64 }

// reaches asks whether so many pods have a node, or the time is up.
func (p *placement) reaches(pods int64, end time.Time) func() bool {
	return func() bool { return p.placed.Load() >= pods || time.Now().After(end) }
}

func (r *schedulingRig) watchPlaced(ctx context.Context) (*placement, error) {
	p := &placement{}
	list := cache.NewFilteredListWatchFromClient(r.clients[0].CoreV1().RESTClient(), "pods", namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = "app=bench" })
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: list, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, new any) {
			was, isPod := old.(*corev1.Pod)
			is, stillPod := new.(*corev1.Pod)
			if isPod && stillPod && was.Spec.NodeName == "" && is.Spec.NodeName != "" {
				p.placed.Add(1)
			}
		}}})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.Join(errors.New("pods can't be watched"), ctx.Err())
	}
	return p, nil
}

// startScheduler starts the scheduler under measurement, which its client does not throttle.
func (r *schedulingRig) startScheduler() (*process, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	conf, err := r.kubeconfig("scheduler.conf", "system:kube-scheduler")
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(r.dir, name) }
	config := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 20000, burst: 20000, contentType: application/vnd.kubernetes.protobuf}
`, conf)
	if err := os.WriteFile(file("scheduler.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	r.port = ports[0]
	return start(r.o.program(schedulerProgram), "--config="+file("scheduler.yaml"), "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", ports[0]), "--tls-cert-file="+file("tls.crt"),
		"--tls-private-key-file="+file("tls.key"), "--authentication-kubeconfig="+conf,
		"--authorization-kubeconfig="+conf, "--authentication-tolerate-lookup-failure")
}
