package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// gatedPod is the name of the pod whose readiness changes, and of its Service.
	gatedPod = "gated"
	// readinessGate is the condition that the pod's readiness waits for.
	readinessGate = "quintet.dev/bench"
)

// firstPackets makes a pod of a node port's Service ready, again and again, and measures how long after that a
// connection from this host comes through: the kubelet, the EndpointSlice controller and kube-proxy are in between.
func (n *networkRig) firstPackets(ctx context.Context) ([]Measure, error) {
	ctx, cancel := context.WithTimeout(ctx, packetsTimeout)
	defer cancel()
	g, err := n.startGated(ctx)
	if err != nil {
		return nil, err
	}
	defer g.watch.Stop()
	var packets, all []time.Duration
	for range endpointChanges {
		if _, err := g.change(ctx, false); err != nil {
			return nil, err
		}
		begin := time.Now()
		became, err := g.change(ctx, true)
		if err != nil {
			return nil, err
		}
		packets, all = append(packets, time.Since(became)), append(all, time.Since(begin))
	}
	slices.Sort(packets)
	slices.Sort(all)
	p99 := endpointChanges * 99 / 100
	return []Measure{
		{Name: "pod ready → first packet, median", Value: milliseconds(packets[endpointChanges/2]), Unit: "ms"},
		{Name: "pod ready → first packet, p99", Value: milliseconds(packets[p99]), Unit: "ms", Aim: "≤ 100 ms"},
		{Name: "gate True → first packet, p99", Value: milliseconds(all[p99]), Unit: "ms"},
	}, nil
}

// gatedServer is a pod whose readiness the benchmark decides, as the only endpoint of a node port.
type gatedServer struct {
	networkRig
	watch   watch.Interface
	address string // of the node port on the pod's node
}

// startGated creates the Service and the pod, and waits until it runs.
func (n *networkRig) startGated(ctx context.Context) (*gatedServer, error) {
	labels := map[string]string{"app": gatedPod}
	service, err := n.api.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: gatedPod},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: labels,
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(serverPort)}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	pods := n.api.CoreV1().Pods(metav1.NamespaceDefault)
	pod := servingPod(gatedPod)
	pod.Labels = labels
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: readinessGate}}
	if pod, err = pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	g := &gatedServer{networkRig: *n}
	if g.watch, err = pods.Watch(ctx, metav1.ListOptions{ResourceVersion: pod.ResourceVersion,
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, gatedPod).String()}); err != nil {
		return nil, err
	}
	if pod, err = g.await(ctx, running); err == nil {
		g.address, err = n.nodeAddress(ctx, pod.Spec.NodeName, service.Spec.Ports[0].NodePort)
	}
	if err != nil {
		g.watch.Stop()
	}
	return g, err
}

// nodeAddress is where this host reaches a port of a node.
func (n *networkRig) nodeAddress(ctx context.Context, name string, port int32) (string, error) {
	node, err := n.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return net.JoinHostPort(a.Address, fmt.Sprint(port)), nil
		}
	}
	return "", fmt.Errorf("node %s has no address", name)
}

// change opens or closes the readiness gate and waits until connections succeed, or fail. It returns when the pod was
// seen to be as its gate says.
func (g *gatedServer) change(ctx context.Context, open bool) (time.Time, error) {
	status := corev1.ConditionFalse
	if open {
		status = corev1.ConditionTrue
	}
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q}]}}`, readinessGate, status)
	if _, err := g.api.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, gatedPod, types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		return time.Time{}, err
	}
	asSaid := func(event watch.EventType, p *corev1.Pod) bool { return ready(event, p) == open }
	if _, err := g.await(ctx, asSaid); err != nil {
		return time.Time{}, err
	}
	seen := time.Now()
	return seen, connects(ctx, g.address, open)
}

// await reads the watch until it shows the pod in a state.
func (g *gatedServer) await(ctx context.Context, state podState) (*corev1.Pod, error) {
	for event := range g.watch.ResultChan() {
		if p, ok := event.Object.(*corev1.Pod); ok && state(event.Type, p) {
			return p, nil
		}
	}
	return nil, fmt.Errorf("pod %s did not change: the watch ended: %w", gatedPod, ctx.Err())
}

// connects dials an address until that succeeds, or fails, as asked for.
func connects(ctx context.Context, address string, succeeds bool) error {
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
