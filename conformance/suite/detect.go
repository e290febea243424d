package suite

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Detect finds the features of the cluster by their effects. It takes no program's name, label or version for one.
func (c *Cluster) Detect(ctx context.Context) error {
	if err := c.probe(ctx); err != nil {
		return fmt.Errorf("find out what the cluster has: %w", err)
	}
	if err := c.probeNodes(ctx); err != nil {
		return fmt.Errorf("find out which nodes run pods: %w", err)
	}
	if err := c.probeNetwork(ctx); err != nil {
		return err
	}
	if err := c.probeStorage(ctx); err != nil {
		return err
	}
	if err := c.probeCSI(ctx); err != nil {
		return err
	}
	if err := c.probeDevices(ctx); err != nil {
		return err
	}
	if err := c.probeKubelets(ctx); err != nil {
		return err
	}
	if err := c.probeServed(); err != nil {
		return err
	}
	return c.probeFormats(ctx)
}

// RunningNodes lists the ready nodes that run real containers and take any pod. That there is none is an error.
func (c *Cluster) RunningNodes(ctx context.Context) ([]corev1.Node, error) {
	nodes, err := c.readyNodes(ctx)
	if err == nil && len(nodes) == 0 {
		err = errors.New("no node is ready and takes pods")
	}
	return nodes, err
}

func (c *Cluster) readyNodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var nodes []corev1.Node
	for _, node := range list.Items {
		if takesPods(&node) && !c.pretending[node.Name] {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// takesPods tells whether a node is ready for any pod.
func takesPods(node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
