package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

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
)

// network measures what users of pods wait for: how long until a name resolves in the first pod of a cluster that does
// not exist yet (as the benchmark time-to-k8s counts), until an endpoint that became ready gets its first packet, and
// how much passes through a cluster IP.
func network(ctx context.Context, _ Options) ([]Measure, error) {
	begin := time.Now()
	c, err := cluster.Start(ctx, cluster.WithNodes(2))
	if err != nil {
		return nil, err
	}
	defer c.Stop(context.WithoutCancel(ctx))
	up := time.Since(begin)
	config := c.RESTConfig()
	config.QPS = -1
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	n := networkRig{config: config, api: api}
	if _, err := createToRunning(ctx, api, "app"); err != nil {
		return nil, err
	}
	running := time.Since(begin)
	if err := n.resolve(ctx, "app", "kubernetes.default.svc.cluster.local"); err != nil {
		return nil, err
	}
	out := []Measure{
		{Name: "up, two nodes and DNS ready", Value: up.Seconds(), Unit: "s"},
		{Name: "up to the app Running", Value: running.Seconds(), Unit: "s"},
		{Name: "up to a name resolved in the app", Value: time.Since(begin).Seconds(), Unit: "s", Aim: "≤ 4 s"},
	}
	for _, measure := range []func(context.Context) ([]Measure, error){n.firstPackets, n.throughput} {
		more, err := measure(ctx)
		out = append(out, more...)
		if err != nil {
			return out, err
		}
	}
	proxy, err := residentOn(ctx, c.Node(1), "kube-proxy")
	if err != nil {
		return out, err
	}
	dns, err := residentOn(ctx, c.Node(1), "coredns")
	return append(out,
		Measure{Name: "resident, kube-proxy", Value: proxy, Unit: "MiB", Aim: "≤ 25 MiB"},
		Measure{Name: "resident, coredns", Value: dns, Unit: "MiB", Aim: "≤ 35 MiB"}), err
}

// networkRig reaches a cluster of two nodes in which the pod "app" serves.
type networkRig struct {
	config *rest.Config
	api    kubernetes.Interface
}

// exec runs a command in a pod and returns what it wrote.
func (n networkRig) exec(ctx context.Context, pod string, command ...string) (string, error) {
	in := suite.T{Cluster: &suite.Cluster{Config: n.config, Client: n.api}, Namespace: metav1.NamespaceDefault}
	out, errs, err := in.Exec(ctx, pod, "", command...)
	if err != nil {
		return "", fmt.Errorf("%s in pod %s: %w: %s", strings.Join(command, " "), pod, err, errs)
	}
	return out, nil
}

// resolve waits until a name resolves in a pod.
func (n networkRig) resolve(ctx context.Context, pod, name string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		_, err := n.exec(ctx, pod, "testimage", "resolve", name)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// firstPackets makes the app the endpoint of a node port, again and again, and measures how long after that a
// connection from this host comes through.
func (n networkRig) firstPackets(ctx context.Context) ([]Measure, error) {
	address, err := n.nodePort(ctx)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for range endpointChanges {
		if err := n.setReady(ctx, false); err != nil {
			return nil, err
		}
		if err := await(ctx, address, false); err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := n.setReady(ctx, true); err != nil {
			return nil, err
		}
		if err := await(ctx, address, true); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return []Measure{
		{Name: "endpoint ready → first packet, median", Value: milliseconds(took[len(took)/2]), Unit: "ms"},
		{Name: "endpoint ready → first packet, p99", Value: milliseconds(took[len(took)*99/100]), Unit: "ms",
			Aim: "≤ 100 ms"},
	}, nil
}

// nodePort makes the Service and the slice that firstPackets changes, and returns where this host reaches it.
func (n networkRig) nodePort(ctx context.Context) (string, error) {
	app, err := n.api.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	node, err := n.api.CoreV1().Nodes().Get(ctx, app.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	service, err := n.api.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "app", Labels: map[string]string{discoveryv1.LabelServiceName: "app"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{app.Status.PodIP}}},
		Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](serverPort)}},
	}
	if _, err := n.api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice,
		metav1.CreateOptions{}); err != nil {
		return "", err
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return net.JoinHostPort(a.Address, fmt.Sprint(service.Spec.Ports[0].NodePort)), nil
		}
	}
	return "", fmt.Errorf("node %s has no address", node.Name)
}

func (n networkRig) setReady(ctx context.Context, ready bool) error {
	slices := n.api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	slice, err := slices.Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		return err
	}
	slice.Endpoints[0].Conditions.Ready = &ready
	_, err = slices.Update(ctx, slice, metav1.UpdateOptions{})
	return err
}

// await connects until that succeeds, or fails, as asked for.
func await(ctx context.Context, address string, succeeds bool) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	dialer := net.Dialer{Timeout: 10 * time.Millisecond} // refusals are rate-limited: most attempts hear nothing
	for {
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s (does this host reach the nodes?): %w", address, errors.Join(err, ctx.Err()))
		}
		if (err == nil) == succeeds {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// throughput has a pod read from the app through its Service's cluster IP, and by its own address.
func (n networkRig) throughput(ctx context.Context) ([]Measure, error) {
	if _, err := createToRunning(ctx, n.api, "client"); err != nil {
		return nil, err
	}
	app, err := n.api.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	service, err := n.api.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "app", metav1.GetOptions{})
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
	direct, err := read(net.JoinHostPort(app.Status.PodIP, fmt.Sprint(serverPort)))
	if err != nil {
		return nil, err
	}
	through, err := read(net.JoinHostPort(service.Spec.ClusterIP, "80"))
	return []Measure{{Name: "through a cluster IP", Value: through, Unit: "MiB/s", Limit: direct,
		Against: "by the pod's address, MiB/s", Aim: "≥ 0.9x"}}, err
}
