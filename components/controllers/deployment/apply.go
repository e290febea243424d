package deployment

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// apply writes p. Every write carries the version it was decided on: what was decided on stale state fails with a
// conflict and is decided again.
func (c *Controller) apply(ctx context.Context, d *apps.Deployment, p plan) error {
	if p.create != nil {
		if err := c.create(ctx, d, p.create); err != nil {
			return err
		}
	}
	sets := c.env.Client.AppsV1().ReplicaSets(d.Namespace)
	for _, set := range p.update {
		if _, err := sets.Update(ctx, set, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update replica set %s/%s: %w", set.Namespace, set.Name, err)
		}
	}
	for _, e := range p.events {
		c.env.Events.Event(d, e.kind, e.reason, e.message)
	}
	for _, set := range p.delete {
		err := sets.Delete(ctx, set.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(set.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete replica set %s/%s: %w", set.Namespace, set.Name, err)
		}
	}
	return c.writeStatus(ctx, d, p.revision, p.status)
}

// writeStatus writes status and revision at once: the status endpoint takes annotations, too.
func (c *Controller) writeStatus(ctx context.Context, d *apps.Deployment, revision string,
	status apps.DeploymentStatus) error {
	if d.Annotations[RevisionAnnotation] == revision && equality.Semantic.DeepEqual(d.Status, status) {
		return nil
	}
	changed := d.DeepCopy()
	changed.Status = status
	if revision != "" {
		changed.Annotations = maps.Clone(d.Annotations)
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[RevisionAnnotation] = revision
	}
	_, err := c.env.Client.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update status of deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// create makes the new set. If its name is taken by another template the collision count is raised, which gives it
// another name next time.
func (c *Controller) create(ctx context.Context, d *apps.Deployment, set *apps.ReplicaSet) error {
	sets := c.env.Client.AppsV1().ReplicaSets(d.Namespace)
	_, err := sets.Create(ctx, set, metav1.CreateOptions{})
	switch {
	case err == nil:
		if size := size(set); size > 0 {
			c.env.Events.Eventf(d, v1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from 0 to %d",
				set.Name, size)
		}
		return nil
	case apierrors.IsAlreadyExists(err):
		existing, getErr := sets.Get(ctx, set.Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if ref := metav1.GetControllerOfNoCopy(existing); ref != nil && ref.UID == d.UID &&
			sameTemplate(&existing.Spec.Template, &d.Spec.Template) {
			return nil // made before, and not seen yet
		}
		status := *d.Status.DeepCopy()
		status.CollisionCount = ptr.To(ptr.Deref(status.CollisionCount, 0) + 1)
		if err := c.writeStatus(ctx, d, d.Annotations[RevisionAnnotation], status); err != nil {
			return err
		}
		return fmt.Errorf("replica set name %s is taken by another template: %w", set.Name, err)
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		return err
	}
	return c.createFailed(ctx, d, set, err)
}

func (c *Controller) createFailed(ctx context.Context, d *apps.Deployment, newSet *apps.ReplicaSet, cause error) error {
	message := fmt.Sprintf("Failed to create new replica set %q: %v", newSet.Name, cause)
	c.env.Events.Event(d, v1.EventTypeWarning, setCreateError, message)
	if hasDeadline(d) {
		status := *d.Status.DeepCopy()
		now := metav1.NewTime(c.env.Clock.Now())
		set(&status, apps.DeploymentCondition{
			Type: apps.DeploymentProgressing, Status: v1.ConditionFalse, Reason: setCreateError, Message: message,
			LastUpdateTime: now, LastTransitionTime: now,
		})
		if err := c.writeStatus(ctx, d, d.Annotations[RevisionAnnotation], status); err != nil {
			return err
		}
	}
	return cause
}

// rollBack serves the annotation by which clients of old API versions request a rollback; kubectl writes the old
// template itself.
func (c *Controller) rollBack(ctx context.Context, d *apps.Deployment) (done bool, err error) {
	wanted, ok := d.Annotations[rollbackAnnotation]
	if !ok || d.DeletionTimestamp != nil || d.Spec.Paused {
		return false, nil
	}
	revision, err := strconv.ParseInt(wanted, 10, 64)
	if err != nil {
		return false, nil
	}
	sets, err := c.claim(ctx, d)
	if err != nil {
		return false, err
	}
	changed := d.DeepCopy()
	delete(changed.Annotations, rollbackAnnotation)
	e := pickRollback(changed, sets, revision)
	if _, err := c.env.Client.AppsV1().Deployments(d.Namespace).Update(ctx, changed,
		metav1.UpdateOptions{}); err != nil {
		return false, err
	}
	c.env.Events.Event(d, e.kind, e.reason, e.message)
	return true, nil
}

// pickRollback puts the template of revision (0: the one before the latest) into d and tells what came of it.
func pickRollback(d *apps.Deployment, sets []*apps.ReplicaSet, revision int64) event {
	if revision == 0 {
		var latest int64
		for _, set := range sets {
			if r := revisionOf(set); r > latest {
				latest, revision = r, latest
			} else if r > revision {
				revision = r
			}
		}
		if revision == 0 {
			return event{v1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find last revision."}
		}
	}
	for _, set := range sets {
		if revisionOf(set) != revision {
			continue
		}
		if sameTemplate(&set.Spec.Template, &d.Spec.Template) {
			return event{v1.EventTypeWarning, "DeploymentRollbackTemplateUnchanged",
				fmt.Sprintf("The rollback revision contains the same template as current deployment %q", d.Name)}
		}
		set.Spec.Template.DeepCopyInto(&d.Spec.Template)
		delete(d.Spec.Template.Labels, apps.DefaultDeploymentUniqueLabelKey)
		for key := range d.Annotations {
			if !ownAnnotations[key] {
				delete(d.Annotations, key)
			}
		}
		for key, value := range set.Annotations {
			if !ownAnnotations[key] {
				d.Annotations[key] = value
			}
		}
		return event{v1.EventTypeNormal, "DeploymentRollback",
			fmt.Sprintf("Rolled back deployment %q to revision %d", d.Name, revision)}
	}
	return event{v1.EventTypeWarning, "DeploymentRollbackRevisionNotFound",
		"Unable to find the revision to rollback to."}
}
