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
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/internal/kubeconfig"
)

const (
	// scheduledPods wait for nodes in each workload, as the scheduler starts.
	scheduledPods = 1000
	// zones that the nodes are spread over.
	zones = 10
	// nodeCPUs is what a node has.
	nodeCPUs = 4
	// schedulingTimeout bounds each workload.
	schedulingTimeout = 10 * time.Minute
)

// workload is pods of one kind that wait for nodes.
type workload struct {
	name string
	// crowded has pods of low priority on all nodes, whose place is taken.
	crowded bool
	shape   func(*corev1.Pod)
}

func workloads() []workload {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bench"}}
	spread := func(key string, unless corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: unless, LabelSelector: selector,
		}
	}
	return []workload{
		{name: "basic", shape: func(*corev1.Pod) {}},
		{name: "spread", shape: func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				spread(corev1.LabelTopologyZone, corev1.DoNotSchedule),
				spread(corev1.LabelHostname, corev1.ScheduleAnyway),
			}
		}},
		{name: "anti-affinity", shape: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: selector}}}}
		}},
		{name: "preemption", crowded: true, shape: func(p *corev1.Pod) {
			p.Spec.PriorityClassName = "bench-high"
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(fmt.Sprint(nodeCPUs))
		}},
	}
}

// schedulingRig is an API server with nodes that nothing runs on.
type schedulingRig struct {
	*rig
	o       Options
	clients []*kubernetes.Clientset
	nodes   int
}

// scheduling measures how fast a scheduler places pods on many nodes. The pods are there before it starts, so that it
// is bounded by no client, and the time counts from the first that has a node; where others have to go for it, from the
// scheduler's start.
func scheduling(ctx context.Context, o Options) ([]Measure, error) {
	nodes, err := o.largest()
	if err != nil {
		return nil, err
	}
	var all []Measure
	for _, w := range workloads() {
		measures, err := o.schedule(ctx, w, max(nodes, scheduledPods))
		if err != nil {
			return all, fmt.Errorf("%s: %w", w.name, err)
		}
		all = append(all, measures...)
	}
	return all, nil
}

func (o Options) schedule(ctx context.Context, w workload, nodes int) (_ []Measure, err error) {
	ctx, cancel := context.WithTimeout(ctx, schedulingTimeout)
	defer cancel()
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, "  %s: %d pods on %d nodes\n", w.name, scheduledPods, nodes)
	}
	started, err := startRig(ctx, o, true)
	if err != nil {
		return nil, err
	}
	defer started.close()
	r := &schedulingRig{rig: started, o: o, nodes: nodes}
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
	if w.crowded {
		if err := r.crowd(ctx); err != nil {
			return err
		}
	}
	return each(ctx, len(r.clients), scheduledPods, func(ctx context.Context, worker, i int) error {
		p := waitingPod(fmt.Sprintf("waiting-%05d", i))
		w.shape(p)
		_, err := r.clients[worker].CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// crowd fills each node with two pods that others may take the place of.
func (r *schedulingRig) crowd(ctx context.Context) error {
	for name, value := range map[string]int32{"bench-low": 1, "bench-high": 1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := r.clients[0].SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return each(ctx, len(r.clients), 2*r.nodes, func(ctx context.Context, worker, i int) error {
		p := waitingPod(fmt.Sprintf("low-%05d", i))
		p.Labels, p.Spec.NodeName, p.Spec.PriorityClassName = nil, emptyNode(i/2).Name, "bench-low"
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(fmt.Sprint(nodeCPUs / 2))
		_, err := r.clients[worker].CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// place starts the scheduler and measures until all pods have nodes.
func (r *schedulingRig) place(ctx context.Context, w workload) ([]Measure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, err := r.watchPlaced(ctx)
	if err != nil {
		return nil, err
	}
	scheduler, err := r.startScheduler()
	if err != nil {
		return nil, err
	}
	defer scheduler.close()
	if err := scheduler.poll(ctx, func() bool { return watching.placed.Load() > 0 }); err != nil {
		return nil, err
	}
	begin, first := time.Now(), watching.placed.Load()
	before, err := cpu(scheduler.pid())
	if err != nil {
		return nil, err
	}
	if w.crowded { // the others' pods went before that
		begin, first, before = scheduler.started, 0, 0
	}
	if err := scheduler.poll(ctx, func() bool { return watching.placed.Load() >= scheduledPods }); err != nil {
		return nil, fmt.Errorf("%d of %d pods have a node: %w", watching.placed.Load(), scheduledPods, err)
	}
	took := time.Since(begin)
	after, err := cpu(scheduler.pid())
	if err != nil {
		return nil, err
	}
	memory, err := peakResident(scheduler.pid())
	n := float64(scheduledPods - first)
	aim := "≥ 10x upstream's"
	return []Measure{
		{Name: w.name + ", pods placed", Value: n / took.Seconds(), Unit: frequency, Aim: aim},
		{Name: w.name + ", scheduler CPU each pod", Value: milliseconds(after-before) / n, Unit: "ms"},
		{Name: w.name + ", scheduler peak resident", Value: memory, Unit: "MiB", Aim: "≤ 1/3 of upstream's"},
	}, err
}

// placement counts the waiting pods that have a node.
type placement struct{ placed atomic.Int64 }

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
	id, err := r.ca.Client("system:kube-scheduler")
	if err != nil {
		return nil, err
	}
	conf, err := kubeconfig.Encode("bench", r.servers[0].url, r.ca.Cert,
		kubeconfig.Identity{User: "system:kube-scheduler", Cert: id.Cert, Key: id.Key})
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(r.dir, name) }
	config := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 20000, burst: 20000, contentType: application/vnd.kubernetes.protobuf}
`, file("scheduler.conf"))
	err = errors.Join(os.WriteFile(file("scheduler.conf"), conf, 0o600),
		os.WriteFile(file("scheduler.yaml"), []byte(config), 0o600))
	if err != nil {
		return nil, err
	}
	return start(r.o.program(schedulerProgram), "--config="+file("scheduler.yaml"), "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", ports[0]), "--tls-cert-file="+file("tls.crt"),
		"--tls-private-key-file="+file("tls.key"), "--authentication-kubeconfig="+file("scheduler.conf"),
		"--authorization-kubeconfig="+file("scheduler.conf"), "--authentication-tolerate-lookup-failure")
}

// emptyNode is the i-th node.
func emptyNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d", i)
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(nodeCPUs)),
		corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name,
			corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones)}},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// waitingPod tolerates that no controller has seen that its node is ready.
func waitingPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](0),
			Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "main", Image: testImage, Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("64Mi")}}}},
		},
	}
}
