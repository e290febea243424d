package suite

import (
	"context"
	"errors"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/exec"
)

// enforcesPolicies finds out whether NetworkPolicies are enforced, in a namespace of its own: a policy closes one pod,
// and another one, which no policy selects, shows that the network works. No object of the API tells.
func (c *Cluster) enforcesPolicies(ctx context.Context, namespace string) (bool, error) {
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "closed"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "closed"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
	policies := c.Client.NetworkingV1().NetworkPolicies(namespace)
	if _, err := policies.Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return false, err
	}
	addresses, err := c.startProbePods(ctx, namespace, "open", "closed")
	if err != nil || addresses == nil {
		return false, err // that pods don't start is said by the cases of the kubelet
	}
	return comes(ctx, func(ctx context.Context) (bool, error) {
		for _, attempt := range []struct {
			from, to string
			connects bool
		}{
			{"closed", "127.0.0.1", true}, // it serves
			{"closed", addresses["open"], true},
			{"open", addresses["closed"], false},
		} {
			connects, err := c.connects(ctx, namespace, attempt.from, attempt.to)
			if err != nil || connects != attempt.connects {
				return false, nil // a container may have started a moment ago: the next round tells
			}
		}
		return true, nil
	})
}

// podTimeout is how long a pod may take to run, which cases of the kubelet test: a busy node is inconclusive.
const podTimeout = time.Minute

// startProbePods runs pods that serve HTTP and returns their addresses; nil when they don't run in time.
func (c *Cluster) startProbePods(ctx context.Context, namespace string, names ...string) (map[string]string, error) {
	t := &T{Cluster: c, Namespace: namespace}
	pods := c.Client.CoreV1().Pods(namespace)
	addresses := map[string]string{}
	for _, name := range names {
		_, err := comes(ctx, func(ctx context.Context) (bool, error) {
			_, err := pods.Create(ctx, t.Pod(name, "serve", "--http=:8080"), metav1.CreateOptions{})
			if apierrors.IsForbidden(err) {
				return false, nil // the namespace has no service account yet
			}
			return err == nil, err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		running, err := comesWithin(ctx, podTimeout, func(ctx context.Context) (bool, error) {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			addresses[name] = pod.Status.PodIP
			return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "", nil
		})
		if err != nil || !running {
			return nil, err
		}
	}
	return addresses, nil
}

// connects reports whether a pod reaches a serving pod. An error means that the attempt was not made.
func (c *Cluster) connects(ctx context.Context, namespace, pod, address string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _, err := c.exec(ctx, namespace, pod, "",
		"testimage", "connect", net.JoinHostPort(address, "8080"), "--timeout=500ms")
	var ended exec.CodeExitError
	if errors.As(err, &ended) && ended.Code == 1 {
		return false, nil
	}
	return err == nil, err
}
