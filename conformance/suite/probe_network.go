package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// networkProbe finds out about one feature, in a namespace of its own.
type networkProbe struct {
	feature Feature
	run     func(ctx context.Context, namespace string) (bool, error)
}

// probeNetwork finds out what the network of pods offers. Each probe waits for something that may never come, so they
// run at the same time.
func (c *Cluster) probeNetwork(ctx context.Context) error {
	if !c.Features[HasScheduler] || !c.Features[RunsPods] || c.pullFailure != "" {
		return nil
	}
	probes := []networkProbe{{PodNetwork, c.connectsPods}}
	if c.Features[HasControllers] {
		probes = append(probes, networkProbe{ServiceNetwork, c.reachesServices}, networkProbe{ClusterDNS, c.resolvesServices},
			networkProbe{NetworkPolicies, c.enforcesPolicies}, networkProbe{LoadBalancers, c.balancesLoad})
	}
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

// inProbeNamespace runs a probe in a namespace in which pods can be created.
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
	if err := c.ensureServiceAccount(ctx, space.Name); err != nil {
		return false, err
	}
	return run(ctx, space.Name)
}

// ensureServiceAccount returns when a namespace has the service account that admission gives to pods. Where no
// controller creates it, the suite does.
func (c *Cluster) ensureServiceAccount(ctx context.Context, namespace string) error {
	accounts := c.Client.CoreV1().ServiceAccounts(namespace)
	if !c.Features[HasControllers] {
		_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
			metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	for {
		_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("namespace %s has no service account: %w", namespace, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// connectsPods finds out whether a pod reaches another by its address.
func (c *Cluster) connectsPods(ctx context.Context, namespace string) (bool, error) {
	addresses, err := c.startProbePods(ctx, namespace, "client", "server")
	if err != nil || addresses == nil {
		return false, err
	}
	return comes(ctx, func(ctx context.Context) (bool, error) {
		connects, err := c.connects(ctx, namespace, "client", addresses["server"])
		return err == nil && connects, nil // a container may have started a moment ago: the next round tells
	})
}

// reachesServices finds out whether a pod reaches another by the address of its Service.
func (c *Cluster) reachesServices(ctx context.Context, namespace string) (bool, error) {
	addresses, err := c.startProbePods(ctx, namespace, "client", "server")
	if err != nil || addresses == nil {
		return false, err
	}
	service, err := c.serveProbe(ctx, namespace)
	if err != nil {
		return false, err
	}
	return comes(ctx, func(ctx context.Context) (bool, error) {
		connects, err := c.connects(ctx, namespace, "client", service.Spec.ClusterIP)
		return err == nil && connects, nil
	})
}

// resolvesServices finds out whether the name of a Service is its address in a pod.
func (c *Cluster) resolvesServices(ctx context.Context, namespace string) (bool, error) {
	service, err := c.serveProbe(ctx, namespace)
	if err != nil {
		return false, err
	}
	addresses, err := c.startProbePods(ctx, namespace, "client")
	if err != nil || addresses == nil {
		return false, err
	}
	return comes(ctx, func(ctx context.Context) (bool, error) {
		out, _, err := c.exec(ctx, namespace, "client", "", "testimage", "resolve", service.Name)
		return err == nil && strings.Contains(out, service.Spec.ClusterIP), nil
	})
}

// serveProbe creates a Service of the pod "server".
func (c *Cluster) serveProbe(ctx context.Context, namespace string) (*corev1.Service, error) {
	return c.Client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "server"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "server"},
			Ports: []corev1.ServicePort{{Port: 8080}}},
	}, metav1.CreateOptions{})
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
