package suite

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// probeNodes finds the nodes that run pods: on each that is ready a container is to end with a certain exit code. A
// node that shows the container running, but never its end, only pretends. One that does not start it in time is none
// of those: that its pods don't run is for the cases to find out.
func (c *Cluster) probeNodes(ctx context.Context) error {
	c.pretending = map[string]bool{}
	nodes, err := c.readyNodes(ctx)
	if err != nil || len(nodes) == 0 {
		return err
	}
	if c.Absent[RunsPods] {
		for _, node := range nodes {
			c.pretending[node.Name] = true
		}
		return nil
	}
	_, err = c.inProbeNamespace(ctx, func(ctx context.Context, namespace string) (bool, error) {
		if err := c.startEndingPods(ctx, namespace, nodes); err != nil {
			return false, err
		}
		return true, c.waitEndingPods(ctx, namespace)
	})
	if err != nil {
		return err
	}
	if nodes, err = c.readyNodes(ctx); err != nil {
		return err
	}
	c.Features[RunsPods] = len(nodes) >= 1
	c.Features[TwoNodes] = len(nodes) >= 2
	c.Features[NodeAccess] = reachesNodes(ctx, nodes)
	return nil
}

const endingCode = 7

func (c *Cluster) startEndingPods(ctx context.Context, namespace string, nodes []corev1.Node) error {
	t := &T{Cluster: c, Namespace: namespace}
	for i, node := range nodes {
		pod := t.Pod(fmt.Sprint("ending-", i), "exit", fmt.Sprint(endingCode))
		pod.Spec.NodeName = node.Name
		if _, err := c.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// waitEndingPods waits until each pod has ended, or for probeTimeout since the last of them began to run.
func (c *Cluster) waitEndingPods(ctx context.Context, namespace string) error {
	began := map[string]time.Time{} // by pod
	changed := time.Now()
	_, err := comesWithin(ctx, podTimeout, func(ctx context.Context) (bool, error) {
		list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		clear(c.pretending)
		ended := 0
		for _, pod := range list.Items {
			c.pullFailure = cmp.Or(pullFailure(&pod, c.Image), c.pullFailure)
			switch {
			case endedWith(&pod, endingCode):
				ended++
			case pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded:
				c.pretending[pod.Spec.NodeName] = true
				if began[pod.Name].IsZero() {
					changed = time.Now()
					began[pod.Name] = changed
				}
			}
		}
		return ended == len(list.Items) || time.Since(changed) > probeTimeout, nil
	})
	return err
}

// endedWith tells whether a container of a pod has ended with a code.
func endedWith(pod *corev1.Pod, code int32) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated != nil && status.State.Terminated.ExitCode == code {
			return true
		}
	}
	return false
}
