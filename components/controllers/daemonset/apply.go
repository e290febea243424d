package daemonset

import (
	"context"
	"fmt"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

func (c *Controller) apply(ctx context.Context, key string, set *apps.DaemonSet, hash string, p plan) error {
	for _, pod := range p.ended {
		reason, how := "FailedDaemonPod", "failed"
		kind := v1.EventTypeWarning
		if pod.Status.Phase == v1.PodSucceeded {
			reason, how, kind = "SucceededDaemonPod", "succeeded", v1.EventTypeNormal
		}
		c.env.Events.Eventf(set, kind, reason, "Found %s daemon pod %s/%s on node %s, will try to delete it", how, pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	failure := c.create(ctx, key, set, hash, p.create)
	if err := c.delete(ctx, key, set, p.delete); failure == nil {
		failure = err
	}
	if !equality.Semantic.DeepEqual(set.Status, p.status) {
		changed := set.DeepCopy()
		changed.Status = p.status
		_, err := c.env.Client.AppsV1().DaemonSets(set.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		if err = runner.IgnoreGone(err); err != nil {
			return fmt.Errorf("update status of daemon set %s: %w", key, err)
		}
	}
	return failure
}

func (c *Controller) create(ctx context.Context, key string, set *apps.DaemonSet, hash string, nodes []string) error {
	c.pending.ExpectCreations(key, len(nodes))
	_, tried, err := pods.SlowStart(len(nodes), func(i int) error {
		created, err := c.env.Client.CoreV1().Pods(set.Namespace).Create(ctx, newPod(set, nodes[i], hash), metav1.CreateOptions{})
		if err == nil {
			c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", created.Name)
			return nil
		}
		c.pending.CreationObserved(key)
		if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
			return nil
		}
		c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return err
	})
	for range len(nodes) - tried {
		c.pending.CreationObserved(key)
	}
	return err
}

func (c *Controller) delete(ctx context.Context, key string, set *apps.DaemonSet, doomed []*v1.Pod) error {
	for _, pod := range doomed {
		c.pending.ExpectDeletions(key, pod.UID)
	}
	return pods.First(pods.Together(len(doomed), func(i int) error {
		pod := doomed[i]
		err := c.env.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if err == nil {
			c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
			return nil
		}
		c.pending.DeletionObserved(key, pod.UID)
		if err = runner.IgnoreGone(err); err != nil {
			c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		}
		return err
	}))
}
