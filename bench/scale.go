package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

const (
	// mostNodes is the aim of the project, leastNodes a size below which fractions tell nothing.
	mostNodes, leastNodes = 5000, 80
	// nodeMemory and podMemory are what a node and a pod are taken to need of the machine, in bytes, by whose half the
	// largest cluster is sized.
	nodeMemory, podMemory = 1 << 20, 64 << 10
	// replicas is the size of the deployments that the pods belong to.
	replicas = 1000
	// scaleTimeout bounds each wait for a cluster: the largest are slow on small machines.
	scaleTimeout = 30 * time.Minute
)

// fractions of the largest cluster that are measured.
var fractions = []struct {
	name string
	of   int
}{{"1/8", 8}, {"1/4", 4}, {"1/2", 2}, {"whole", 1}}

func scaleInMemory(ctx context.Context, o Options) ([]Measure, error) { return scale(ctx, o, "memory") }
func scaleOnEtcd(ctx context.Context, o Options) ([]Measure, error)   { return scale(ctx, o, "etcd3") }

// scale measures how costs grow with a cluster of hollow nodes: each of the cluster's sizes in a process of its own,
// against the one of half its size. What is proportional grows 2 times.
func scale(ctx context.Context, o Options, store string) ([]Measure, error) {
	nodes, err := o.largest()
	if err != nil {
		return nil, err
	}
	var all []Measure
	var before []Measure
	smaller := ""
	for _, f := range fractions {
		size := nodes / f.of
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "  %d hollow nodes, %d pods, store %s\n", size, size*o.PodsPerNode, store)
		}
		measures, err := scaled(ctx, o, store, size)
		if err != nil {
			return all, fmt.Errorf("%d nodes: %w", size, err)
		}
		now := slices.Clone(measures)
		if before != nil {
			measures = append(measures, eachNode(before, now))
		}
		for i := range measures {
			measures[i].Name = fmt.Sprintf("%s, %s", measures[i].Name, f.name)
			if i < len(before) {
				measures[i].Limit, measures[i].Against = before[i].Value, smaller
			}
		}
		all, before, smaller = append(all, measures...), now, "at "+f.name
	}
	return all, nil
}

// The measures that tell what each node takes.
const (
	nodesMeasure    = "nodes"
	residentMeasure = "resident, nodes without pods"
	peakMeasure     = "peak resident"
)

// eachNode is what each node takes that a cluster has more than a smaller one.
func eachNode(smaller, larger []Measure) Measure {
	more := func(name string) float64 { return valueOf(larger, name) - valueOf(smaller, name) }
	return Measure{Name: "resident, each further node", Value: more(residentMeasure) / more(nodesMeasure), Unit: "MiB",
		Aim: "≤ 1 MiB"}
}

// valueOf finds a measure by its name.
func valueOf(measures []Measure, name string) float64 {
	return measures[slices.IndexFunc(measures, func(m Measure) bool { return m.Name == name })].Value
}

// largest is how many nodes the largest cluster has: as many as the half of the machine's memory is enough for, and no
// more than the project aims at.
func (o Options) largest() (int, error) {
	if o.Nodes > 0 {
		return o.Nodes, nil
	}
	memory, err := machineMemory()
	return max(leastNodes, min(mostNodes, int(memory/2)/(nodeMemory+o.PodsPerNode*podMemory))), err
}

// scaled measures one cluster, from its start to its end.
func scaled(ctx context.Context, o Options, store string, nodes int) ([]Measure, error) {
	ctx, cancel := context.WithTimeout(ctx, scaleTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "quintet-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	const name = "scale"
	p, err := startWith([]string{"XDG_STATE_HOME=" + dir}, filepath.Join(o.Bin, "quintet"), "up", "--in-process",
		"--name="+name, "--store="+store, "--nodes="+strconv.Itoa(nodes), "--timeout="+scaleTimeout.String())
	if err != nil {
		return nil, err
	}
	defer p.close()
	kubeconfig := filepath.Join(dir, "quintet", name, "kubeconfig")
	ready, err := p.appears(ctx, kubeconfig)
	if err != nil {
		return nil, err
	}
	empty, err := resident(p.pid())
	if err != nil {
		return nil, err
	}
	pods := nodes * o.PodsPerNode
	took, err := deploy(ctx, kubeconfig, pods)
	if err != nil {
		return nil, err
	}
	peak, err := peakResident(p.pid())
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := p.end(ctx); err != nil {
		return nil, err
	}
	return []Measure{
		{Name: nodesMeasure, Value: float64(nodes), Unit: "nodes"},
		{Name: "nodes ready", Value: ready.Seconds(), Unit: "s"},
		{Name: residentMeasure, Value: empty, Unit: "MiB"},
		{Name: "pods to ready", Value: float64(pods) / took.Seconds(), Unit: frequency, Aim: "≥ 1000/s"},
		{Name: peakMeasure, Value: peak, Unit: "MiB", Aim: "≤ 12 GiB at 5,000 nodes, 150,000 pods"},
		{Name: "gone", Value: time.Since(begin).Seconds(), Unit: "s"},
	}, nil
}

// deploy makes deployments of pods and returns how long it took until all pods were ready.
func deploy(ctx context.Context, kubeconfig string, pods int) (time.Duration, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 0, err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	deployments := client.AppsV1().Deployments(metav1.NamespaceDefault)
	w, err := deployments.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	begin := time.Now()
	for made := 0; made < pods; made += replicas {
		if _, err := deployments.Create(ctx, webDeployment(fmt.Sprintf("web-%d", made/replicas), min(replicas, pods-made)),
			metav1.CreateOptions{}); err != nil {
			return 0, err
		}
	}
	ready := readyCount{}
	for event := range w.ResultChan() {
		if d, ok := event.Object.(*appsv1.Deployment); ok && ready.set(d) == pods {
			return time.Since(begin), nil
		}
	}
	return 0, fmt.Errorf("%d of %d pods are ready: %w", ready.sum(), pods, ctx.Err())
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

// appears waits for a file that the program writes, and returns the time since the program started.
func (p *process) appears(ctx context.Context, file string) (time.Duration, error) {
	err := p.poll(ctx, func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	return time.Since(p.started), err
}

// end asks the program to end, and waits for it.
func (p *process) end(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.exited:
		p.exited <- err
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", p.name, ctx.Err())
	}
}
