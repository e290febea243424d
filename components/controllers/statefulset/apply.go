package statefulset

import (
	"context"
	"encoding/json"
	"fmt"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/consistency"
	"quintet.dev/quintet/components/controllers/history"
	"quintet.dev/quintet/components/controllers/runner"
)

func (c *Controller) apply(ctx context.Context, key string, set *apps.StatefulSet, p plan,
	revisions map[string]*apps.ControllerRevision) error {
	failure := c.create(ctx, set, p.create, revisions)
	if failure == nil {
		failure = c.repair(ctx, set, p.members)
	}
	if failure == nil {
		failure = c.retain(ctx, set, p.condemned, true)
	}
	if failure == nil {
		failure = c.delete(ctx, set, p.delete)
	}
	if !equality.Semantic.DeepEqual(set.Status, p.status) {
		changed := set.DeepCopy()
		changed.Status = p.status
		if err := runner.IgnoreGone(c.writeStatus(ctx, changed)); err != nil {
			return fmt.Errorf("update status of stateful set %s: %w", key, err)
		}
	}
	return failure
}

func (c *Controller) create(ctx context.Context, set *apps.StatefulSet, wanted []creation,
	revisions map[string]*apps.ControllerRevision) error {
	for _, w := range wanted {
		template, err := history.Template(revisions[w.revision])
		if err != nil {
			return err
		}
		if err := c.ensureClaims(ctx, set, w.ordinal); err != nil {
			return err
		}
		pod := newPod(set, template, w.revision, w.ordinal)
		made, err := c.env.Client.CoreV1().Pods(set.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		switch {
		case err == nil:
			c.wrote(set, consistency.Pods, made.ResourceVersion)
			c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulCreate",
				"create Pod %s in StatefulSet %s successful", pod.Name, set.Name)
		case apierrors.IsAlreadyExists(err):
			if err := c.isOurs(ctx, set, pod.Name); err != nil {
				return err
			}
		case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
			return nil
		default:
			c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedCreate",
				"create Pod %s in StatefulSet %s failed error: %v", pod.Name, set.Name, err)
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
			return fmt.Errorf("persistent volume claim %s/%s is being deleted: the pod waits for a new one",
				claim.Namespace, claim.Name)
		case err == nil:
			if err := c.retainClaim(ctx, set, existing, podName(set, ordinal), owners(set, nil)); err != nil {
				return err
			}
			continue
		case !apierrors.IsNotFound(err):
			return err
		}
		claim.OwnerReferences = owners(set, nil)
		made, err := c.env.Client.CoreV1().PersistentVolumeClaims(set.Namespace).Create(ctx, claim, metav1.CreateOptions{})
		switch {
		case err == nil:
			c.wrote(set, consistency.Claims, made.ResourceVersion)
			c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulCreate",
				"create Claim %s Pod %s in StatefulSet %s success", claim.Name, podName(set, ordinal), set.Name)
		case !apierrors.IsAlreadyExists(err):
			c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedCreate",
				"create Claim %s for Pod %s in StatefulSet %s failed error: %v", claim.Name, podName(set, ordinal),
				set.Name, err)
			return err
		}
	}
	return nil
}

// isOurs fails if a pod is not the set's. One that is was made before, and its event comes; what becomes of another's
// is not observed here: the set is requeued.
func (c *Controller) isOurs(ctx context.Context, set *apps.StatefulSet, name string) error {
	pod, err := c.env.Client.CoreV1().Pods(set.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil && !metav1.IsControlledBy(pod, set) {
		err = fmt.Errorf("pod %s/%s exists and is not controlled by stateful set %s", set.Namespace, name, set.Name)
	}
	return err
}

// repair gives the pods of the set what they should have: the labels of their identity, claims that are missing as long
// as they wait for them, and the owners of claims that the policy wants.
func (c *Controller) repair(ctx context.Context, set *apps.StatefulSet, members []*v1.Pod) error {
	for _, pod := range members {
		if pod.DeletionTimestamp != nil {
			continue
		}
		claims := func() error { return c.retain(ctx, set, []*v1.Pod{pod}, false) }
		if pod.Status.Phase == v1.PodPending { // its claims are made, too
			claims = func() error { return c.ensureClaims(ctx, set, ordinal(set, pod)) }
		}
		if err := claims(); err != nil {
			return err
		}
		if err := c.identify(ctx, set, pod); err != nil {
			return err
		}
	}
	return nil
}

// identify labels a pod with its name and index, which an adopted one may lack.
func (c *Controller) identify(ctx context.Context, set *apps.StatefulSet, pod *v1.Pod) error {
	wanted := identity(pod.Name, ordinal(set, pod))
	missing := map[string]string{}
	for key, value := range wanted {
		if pod.Labels[key] != value {
			missing[key] = value
		}
	}
	if len(missing) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "labels": missing}})
	if err != nil {
		return err
	}
	err = runner.IgnoreGone(c.control().Patch(ctx, runner.Key(set), set.UID, pod, patch))
	if err != nil {
		c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedUpdate",
			"update Pod %s in StatefulSet %s failed error: %v", pod.Name, set.Name, err)
	}
	return err
}

// retain gives the claims of pods the owners that the policy wants: those of condemned pods may go with them.
func (c *Controller) retain(ctx context.Context, set *apps.StatefulSet, list []*v1.Pod, condemned bool) error {
	for _, pod := range list {
		wanted := owners(set, nil)
		if condemned {
			wanted = owners(set, pod)
		}
		for _, claim := range claims(set, ordinal(set, pod)) {
			existing, err := c.claims.PersistentVolumeClaims(set.Namespace).Get(claim.Name)
			if err != nil {
				continue
			}
			if err := c.retainClaim(ctx, set, existing, pod.Name, wanted); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Controller) retainClaim(ctx context.Context, set *apps.StatefulSet, claim *v1.PersistentVolumeClaim,
	pod string, wanted []metav1.OwnerReference) error {
	refs, changed := retained(set, claim, pod, wanted)
	if !changed {
		return nil
	}
	updated := claim.DeepCopy()
	updated.OwnerReferences = refs
	written, err := c.env.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, updated,
		metav1.UpdateOptions{})
	if err != nil {
		return runner.IgnoreGone(err)
	}
	c.wrote(set, consistency.Claims, written.ResourceVersion)
	return nil
}

func (c *Controller) delete(ctx context.Context, set *apps.StatefulSet, doomed []*v1.Pod) error {
	for _, pod := range doomed {
		err := c.env.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if runner.IgnoreGone(err) != nil {
			c.env.Events.Eventf(set, v1.EventTypeWarning, "FailedDelete",
				"delete Pod %s in StatefulSet %s failed error: %v", pod.Name, set.Name, err)
			return err
		}
		if err == nil {
			c.env.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulDelete",
				"delete Pod %s in StatefulSet %s successful", pod.Name, set.Name)
		}
	}
	return nil
}
