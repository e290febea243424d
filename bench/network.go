package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/conformance/suite"
)

// Sizes of what the network section does.
const (
	endpointChanges = 200
	transferred     = 2 << 30 // bytes that a client pod reads at once
	transfers       = 5
	serverPort      = 8080
	// changeTimeout bounds how long an endpoint or a name may take: what is slower doesn't come.
	changeTimeout = 30 * time.Second
	// packetsTimeout bounds all changes of an endpoint together.
	packetsTimeout = 3 * time.Minute
)

// network measures what users of pods wait for: how long a cluster that does not exist yet takes to each of the steps
// that the benchmark time-to-k8s times, what the programs of its network hold in memory while nothing happens, how long
// it takes until a pod that became ready gets its first packet, and how much passes through a cluster IP.
func network(ctx context.Context, o Options) ([]Measure, error) {
	n := &networkRig{program: o.program("quintet"), name: fmt.Sprintf("bench-%d", os.Getpid())}
	defer n.close(context.WithoutCancel(ctx))
	var out []Measure
	for _, measure := range []func(context.Context) ([]Measure, error){
		n.firstUse, n.idleMemory, n.firstPackets, n.throughput,
	} {
		more, err := measure(ctx)
		out = append(out, more...)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// networkRig is a cluster of two nodes, which the command `quintet` starts.
type networkRig struct {
	program, name string
	cluster       *cluster.Cluster
	config        *rest.Config
	api           kubernetes.Interface
}

// up starts the cluster.
func (n *networkRig) up(ctx context.Context) error {
	if err := n.quintet(ctx, "up", "--nodes=2"); err != nil {
		return err
	}
	var err error
	if n.cluster, err = cluster.Open(ctx, n.name); err != nil {
		return err
	}
	n.config = n.cluster.RESTConfig()
	n.config.QPS = -1
	n.api, err = kubernetes.NewForConfig(n.config)
	return err
}

// close removes the cluster, or what there is of it.
func (n *networkRig) close(ctx context.Context) {
	_ = n.cluster.Close()
	_ = n.quintet(ctx, "down")
}

// quintet runs a command on the cluster.
func (n *networkRig) quintet(ctx context.Context, verb string, args ...string) error {
	out, err := exec.CommandContext(ctx, n.program, append([]string{verb, "--name=" + n.name}, args...)...).
		CombinedOutput()
	if err != nil {
		return fmt.Errorf("quintet %s: %w: %s", verb, err, out)
	}
	return nil
}

// exec runs a command in a pod and returns what it wrote.
func (n *networkRig) exec(ctx context.Context, pod string, command ...string) (string, error) {
	in := suite.T{Cluster: &suite.Cluster{Config: n.config, Client: n.api}, Namespace: metav1.NamespaceDefault}
	out, errs, err := in.Exec(ctx, pod, "", command...)
	if err != nil {
		return "", fmt.Errorf("%s in pod %s: %w: %s", strings.Join(command, " "), pod, err, errs)
	}
	return out, nil
}

// idleMemory tells what the programs hold that every cluster with a network has, before the load.
func (n *networkRig) idleMemory(ctx context.Context) ([]Measure, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settleTime):
	}
	proxy, err := residentOn(ctx, n.cluster.Node(1), "kube-proxy")
	if err != nil {
		return nil, err
	}
	dns, err := residentOn(ctx, n.cluster.Node(1), "coredns")
	return []Measure{
		{Name: "idle, resident, kube-proxy", Value: proxy, Unit: "MiB", Aim: "≤ 25 MiB"},
		{Name: "idle, resident, coredns", Value: dns, Unit: "MiB", Aim: "≤ 35 MiB"},
	}, err
}

// throughput has a pod read from another through its Service's cluster IP, and by its own address.
func (n *networkRig) throughput(ctx context.Context) ([]Measure, error) {
	if _, err := createToRunning(ctx, n.api, "client"); err != nil {
		return nil, err
	}
	server, err := n.api.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, gatedPod, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	service, err := n.api.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, gatedPod, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	read := func(address string) (float64, error) {
		took, err := median(transfers, func(int) (time.Duration, error) {
			out, err := n.exec(ctx, "client", "testimage", "drain", fmt.Sprintf("http://%s/bytes?n=%d", address, transferred))
			if err != nil {
				return 0, err
			}
			return time.ParseDuration(strings.TrimSpace(out))
		})
		return transferred / (1 << 20) / took.Seconds(), err
	}
	direct, err := read(net.JoinHostPort(server.Status.PodIP, fmt.Sprint(serverPort)))
	if err != nil {
		return nil, err
	}
	through, err := read(net.JoinHostPort(service.Spec.ClusterIP, "80"))
	return []Measure{{Name: "through a cluster IP", Value: through, Unit: "MiB/s", Limit: direct,
		Against: "by the pod's address, MiB/s", Aim: "≥ 0.9x"}}, err
}
