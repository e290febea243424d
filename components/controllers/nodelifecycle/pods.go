package nodelifecycle

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/nodes"
	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

// markPods takes the pods of a node that fell silent out of service, once: a kubelet that still lives may say
// otherwise of them afterwards.
func (c *Controller) markPods(ctx context.Context, node *v1.Node) error {
	c.mu.Lock()
	ready := nodes.Condition(node, v1.NodeReady)
	fellSilent := ready != nil && ready.Status == v1.ConditionUnknown && ready.Reason == silentReason
	if !fellSilent {
		delete(c.marked, node.Name)
	}
	skip := !fellSilent || c.marked[node.Name]
	c.mu.Unlock()
	if skip {
		return nil
	}
	c.env.Events.Eventf(nodes.Reference(node.Name), v1.EventTypeNormal, "NodeNotReady",
		"Node %s status is now: NodeNotReady", node.Name)
	var errs []error
	for _, pod := range c.pods.OnNode(node.Name) {
		if pods.Ready(pod) {
			errs = append(errs, c.markPod(ctx, pod))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marked[node.Name] = true
	return nil
}

func (c *Controller) markPod(ctx context.Context, pod *v1.Pod) error {
	changed := pod.DeepCopy()
	ready := pods.Condition(changed, v1.PodReady)
	ready.Status = v1.ConditionFalse
	ready.LastTransitionTime = metav1.NewTime(c.env.Clock.Now())
	_, err := c.env.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err == nil {
		c.env.Events.Event(pod, v1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	return runner.IgnoreGone(err)
}
