package statefulset

import (
	"context"
	"fmt"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/history"
	"quintet.dev/quintet/components/controllers/runner"
)

func (c *Controller) apply(ctx context.Context, key string, set *apps.StatefulSet, p plan, revisions map[string]*apps.ControllerRevision) error {
	failure := c.create(ctx, set, p.create, revisions)
	if failure == nil {
		failure = c.retain(ctx, set, p.condemned)
	}
	if failure == nil {
		failure = c.delete(ctx, set, p.delete)
	}
	if !equality.Semantic.DeepEqual(set.Status, p.status) {
		changed := set.DeepCopy()
		changed.Status = p.status
		_, err := c.env.Client.AppsV1().StatefulSets(set.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		if err = runner.IgnoreGone(err); err != nil {
			return fmt.Errorf("update status of stateful set %s: %w", key, err)
		}
	}
	return failure
}

func (c *Controller) create(ctx context.Context, set *apps.StatefulSet, wanted []creation, revisions map[string]*apps.ControllerRevision) error {
	for _, w := range wanted {
		template, err := history.Template(revisions[w.revision])
		if err != nil {
			return err
		}
		if err := c.ensureClaims(ctx, set, w.ordinal); err != nil {
			return err
		}
		pod := newPod(set, template, w.revision, w.ordinal)
		_, err = c.env.Client.CoreV1().Pods(set.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		switch {
		case err == nil:
			c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulCreate", "create Pod %s in StatefulSet %s successful", pod.Name, set.Name)
		case apierrors.IsAlreadyExists(err): // made before, or another's: its event or its end brings us back
		case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
			return nil
		default:
			c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedCreate", "create Pod %s in StatefulSet %s failed error: %v", pod.Name, set.Name, err)
			return err
		}
	}
	return nil
}

func (c *Controller) ensureClaims(ctx context.Context, set *apps.StatefulSet, ordinal int) error {
	for _, claim := range claims(set, ordinal) {
		existing, err := c.claims.PersistentVolumeClaims(set.Namespace).Get(claim.Name)
		switch {
		case err == nil && existing.DeletionTimestamp != nil:
			return fmt.Errorf("persistent volume claim %s/%s is being deleted: the pod waits for a new one", claim.Namespace, claim.Name)
		case err == nil:
			if err := c.retainClaim(ctx, set, existing, podName(set, ordinal), owners(set, nil)); err != nil {
				return err
			}
			continue
		case !apierrors.IsNotFound(err):
			return err
		}
		claim.OwnerReferences = owners(set, nil)
		_, err = c.env.Client.CoreV1().PersistentVolumeClaims(set.Namespace).Create(ctx, claim, metav1.CreateOptions{})
		switch {
		case err == nil:
			c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulCreate", "create Claim %s Pod %s in StatefulSet %s success", claim.Name, podName(set, ordinal), set.Name)
		case !apierrors.IsAlreadyExists(err):
			c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedCreate", "create Claim %s for Pod %s in StatefulSet %s failed error: %v", claim.Name, podName(set, ordinal), set.Name, err)
			return err
		}
	}
	return nil
}

// retain hands the claims of condemned pods over to them, where the policy wants those to go together.
func (c *Controller) retain(ctx context.Context, set *apps.StatefulSet, condemned []*v1.Pod) error {
	for _, pod := range condemned {
		for _, claim := range claims(set, ordinal(set, pod)) {
			existing, err := c.claims.PersistentVolumeClaims(set.Namespace).Get(claim.Name)
			if err != nil {
				continue
			}
			if err := c.retainClaim(ctx, set, existing, pod.Name, owners(set, pod)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Controller) retainClaim(ctx context.Context, set *apps.StatefulSet, claim *v1.PersistentVolumeClaim, pod string, wanted []metav1.OwnerReference) error {
	refs, changed := retained(set, claim, pod, wanted)
	if !changed {
		return nil
	}
	updated := claim.DeepCopy()
	updated.OwnerReferences = refs
	_, err := c.env.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, updated, metav1.UpdateOptions{})
	return runner.IgnoreGone(err)
}

func (c *Controller) delete(ctx context.Context, set *apps.StatefulSet, doomed []*v1.Pod) error {
	for _, pod := range doomed {
		err := c.env.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if runner.IgnoreGone(err) != nil {
			c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedDelete", "delete Pod %s in StatefulSet %s failed error: %v", pod.Name, set.Name, err)
			return err
		}
		if err == nil {
			c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulDelete", "delete Pod %s in StatefulSet %s successful", pod.Name, set.Name)
		}
	}
	return nil
}
