package daemonset

import (
	"context"
	"fmt"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

func (c *Controller) apply(ctx context.Context, key string, set *apps.DaemonSet, hash string, p plan) error {
	for _, pod := range p.ended {
		reason, how := "FailedDaemonPod", "failed"
		kind := v1.EventTypeWarning
		if pod.Status.Phase == v1.PodSucceeded {
			reason, how, kind = "SucceededDaemonPod", "succeeded", v1.EventTypeNormal
		}
		c.env.Events.Eventf(set, kind, reason, "Found %s daemon pod %s/%s on node %s, will try to delete it", how,
			pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	failure := c.control().Create(ctx, key, set, len(p.create), func(i int) *v1.Pod {
		return newPod(set, p.create[i], hash)
	})
	if err := c.control().Delete(ctx, key, set, p.delete); failure == nil {
		failure = err
	}
	if !equality.Semantic.DeepEqual(set.Status, p.status) {
		changed := set.DeepCopy()
		changed.Status = p.status
		if err := runner.IgnoreGone(c.writeStatus(ctx, changed)); err != nil {
			return fmt.Errorf("update status of daemon set %s: %w", key, err)
		}
	}
	return failure
}

func (c *Controller) writeStatus(ctx context.Context, set *apps.DaemonSet) error {
	written, err := c.env.Client.AppsV1().DaemonSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	c.writes.Wrote(runner.Key(set), set.UID, resource, written.ResourceVersion)
	return nil
}
