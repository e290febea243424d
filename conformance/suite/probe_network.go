package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// networkProbe finds out about one feature, in a namespace of its own.
type networkProbe struct {
	feature Feature
	run     func(ctx context.Context, namespace string) (bool, error)
}

// probeNetwork finds out what the network of pods offers beyond reaching each other. Each probe waits for something
// that may never come, so they run at the same time.
func (c *Cluster) probeNetwork(ctx context.Context) error {
	for _, need := range []Feature{HasScheduler, HasControllers, RunsPods, PodNetwork} {
		if !c.Features[need] {
			return nil
		}
	}
	probes := []networkProbe{{NetworkPolicies, c.enforcesPolicies}, {LoadBalancers, c.balancesLoad}}
	found := make([]bool, len(probes))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, probe := range probes {
		group.Go(func() (err error) {
			if found[i], err = c.inProbeNamespace(groupCtx, probe.run); err != nil {
				return fmt.Errorf("find out whether the cluster has %s: %w", probe.feature, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, probe := range probes {
		c.Features[probe.feature] = found[i]
	}
	return nil
}

func (c *Cluster) inProbeNamespace(
	ctx context.Context, run func(ctx context.Context, namespace string) (bool, error),
) (bool, error) {
	namespaces := c.Client.CoreV1().Namespaces()
	space, err := namespaces.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-probe-"}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	defer func() { _ = namespaces.Delete(context.WithoutCancel(ctx), space.Name, metav1.DeleteOptions{}) }()
	return run(ctx, space.Name)
}

// balancesLoad finds out whether a Service of type LoadBalancer gets an address.
func (c *Cluster) balancesLoad(ctx context.Context, namespace string) (bool, error) {
	services := c.Client.CoreV1().Services(namespace)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := services.Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return false, err
	}
	return comes(ctx, func(ctx context.Context) (bool, error) {
		service, err := services.Get(ctx, service.Name, metav1.GetOptions{})
		return err == nil && len(service.Status.LoadBalancer.Ingress) > 0, err
	})
}

// reachesNodes reports whether each node's address answers the suite itself, were it by a refusal.
func reachesNodes(ctx context.Context, nodes []corev1.Node) bool {
	const kubeletPort = "10250"
	dialer := net.Dialer{Timeout: time.Second}
	for _, node := range nodes {
		for _, address := range node.Status.Addresses {
			if address.Type != corev1.NodeInternalIP {
				continue
			}
			conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.Address, kubeletPort))
			if err == nil {
				_ = conn.Close()
			} else if !errors.Is(err, syscall.ECONNREFUSED) {
				return false
			}
		}
	}
	return len(nodes) > 0
}
