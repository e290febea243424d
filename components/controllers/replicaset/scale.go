package replicaset

import (
	"context"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/pods"
)

// scale creates or deletes what p says and returns the first failure.
func (c *Controller) scale(ctx context.Context, key string, set *apps.ReplicaSet, p plan) error {
	if p.create > 0 {
		return c.create(ctx, key, set, p.create)
	}
	return c.delete(ctx, key, set, p.delete)
}

func (c *Controller) create(ctx context.Context, key string, set *apps.ReplicaSet, count int) error {
	ref := *metav1.NewControllerRef(set, c.sets.kind())
	c.pending.ExpectCreations(key, count)
	_, tried, err := pods.SlowStart(count, func(int) error {
		err := c.createPod(ctx, set, pods.FromTemplate(&set.Spec.Template, set, ref))
		if err != nil {
			c.pending.CreationObserved(key)
		}
		if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
			return nil // everything here is about to go; trying again would only fail again
		}
		return err
	})
	for range count - tried {
		c.pending.CreationObserved(key)
	}
	return err
}

func (c *Controller) createPod(ctx context.Context, set *apps.ReplicaSet, pod *v1.Pod) error {
	created, err := c.env.Client.CoreV1().Pods(set.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		if !apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
			c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		}
		return err
	}
	klog.FromContext(ctx).V(4).Info("Created pod", "pod", klog.KObj(created), "replicaSet", klog.KObj(set))
	c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", created.Name)
	return nil
}

func (c *Controller) delete(ctx context.Context, key string, set *apps.ReplicaSet, doomed []*v1.Pod) error {
	uids := make([]types.UID, 0, len(doomed))
	for _, pod := range doomed {
		uids = append(uids, pod.UID)
	}
	c.pending.ExpectDeletions(key, uids...)
	return pods.First(pods.Together(len(doomed), func(i int) error {
		err := c.deletePod(ctx, set, doomed[i])
		if err != nil {
			c.pending.DeletionObserved(key, doomed[i].UID)
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}))
}

func (c *Controller) deletePod(ctx context.Context, set *apps.ReplicaSet, pod *v1.Pod) error {
	err := c.env.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	switch {
	case err == nil:
		c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
	case !apierrors.IsNotFound(err):
		c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
	}
	return err
}
