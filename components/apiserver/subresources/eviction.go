package subresources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/objects"
)

var budgets = schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}

const (
	// maxDisrupted bounds the evictions that the controller of budgets has not yet seen.
	maxDisrupted = 2000
	// attempts bounds how often an eviction starts again because the pod changed meanwhile.
	attempts = 20
	// retrySeconds is what clients are told to wait for a budget that is still being computed.
	retrySeconds = 10

	violates = "Cannot evict pod as it would violate the pod's disruption budget."
)

// PodDeleter deletes a pod as a DELETE request with these options does: with grace, preconditions and dry run.
type PodDeleter interface {
	DeletePod(ctx context.Context, namespace, name string, options *metav1.DeleteOptions) error
}

// Evicter deletes pods as far as their disruption budgets allow, for pods/eviction
// (https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/).
type Evicter struct {
	Objects interface {
		objects.Reader
		Updater
	}
	Pods  PodDeleter
	Clock clock.PassiveClock
}

// Evict answers an eviction; nil means that the pod is being deleted. Errors are API status errors: 429 with a cause of
// type DisruptionBudget when the budget doesn't allow it.
func (e *Evicter) Evict(ctx context.Context, namespace, name string, eviction *policyv1.Eviction, dryRun bool,
	admit Admit) error {
	if eviction.Name != name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	options, err := deleteOptions(eviction, dryRun)
	if err != nil {
		return err
	}
	if eviction.DeleteOptions != nil {
		eviction.DeleteOptions = options // with the dry run
	}
	if err := admit(eviction); err != nil {
		return err
	}
	dryRun = len(options.DryRun) > 0
	pod, gone, err := e.removeFree(ctx, namespace, name, options, dryRun)
	if gone || err != nil {
		return err
	}
	budget, err := e.budget(ctx, pod)
	switch {
	case err != nil:
		return err
	case budget == nil:
		return e.remove(ctx, pod, options, dryRun)
	case !ready(pod) && unhealthyMayGo(budget):
		pinned := pinned(options, pod)
		err := e.remove(ctx, pod, pinned, dryRun)
		if apierrors.IsConflict(err) && !hasVersion(options) {
			return stillProcessed(budget.Name) // the pod may be healthy by now
		}
		return err
	}
	if err := e.spend(ctx, budget, pod.Name, dryRun); err != nil {
		return err
	}
	return e.remove(ctx, pod, options, dryRun)
}

// deleteOptions are those of the eviction, with the request's word on a dry run.
func deleteOptions(eviction *policyv1.Eviction, dryRun bool) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		options = eviction.DeleteOptions.DeepCopy()
	}
	if ptr.Deref(options.IgnoreStoreReadErrorWithClusterBreakingPotential, false) {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: policyv1.GroupName, Kind: "Eviction"}, eviction.Name,
			field.ErrorList{
				field.Invalid(field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true,
					"can not be set for pod eviction, try after removing the option")})
	}
	if all := []string{metav1.DryRunAll}; dryRun && len(options.DryRun) == 0 {
		options.DryRun = all
	} else if dryRun && !slices.Equal(options.DryRun, all) {
		return nil, plain(fmt.Sprintf("Non-matching dry-run options in request and content: %v and %v", all,
			options.DryRun))
	}
	return options, nil
}

// removeFree deletes the pod if no budget counts for it, and returns it as it is otherwise. Whether a pending pod
// counts is true of one version of it, so only this version goes; it tries again with the next unless the client named
// one.
func (e *Evicter) removeFree(ctx context.Context, namespace, name string, options *metav1.DeleteOptions,
	dryRun bool) (pod *corev1.Pod, gone bool, err error) {
	for range attempts {
		pod, err = objects.As[*corev1.Pod](e.Objects.Live(ctx, pods, namespace, name))
		if err != nil || !ignoresBudget(pod) {
			return pod, false, err
		}
		use := options
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil && !hasVersion(options) {
			use = pinned(options, pod)
		}
		err = e.remove(ctx, pod, use, dryRun)
		if !apierrors.IsConflict(err) || hasVersion(options) {
			break
		}
	}
	return pod, err == nil, err
}

func hasVersion(o *metav1.DeleteOptions) bool {
	return o.Preconditions != nil && o.Preconditions.ResourceVersion != nil
}

// pinned are the options, but for this version of the pod.
func pinned(o *metav1.DeleteOptions, pod *corev1.Pod) *metav1.DeleteOptions {
	o = o.DeepCopy()
	if o.Preconditions == nil {
		o.Preconditions = &metav1.Preconditions{}
	}
	o.Preconditions.ResourceVersion = &pod.ResourceVersion
	return o
}

func precondition(pod *corev1.Pod, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	conflict := func(what string, want, have any, perhaps string) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, pod.Name, fmt.Errorf(
			"the %s in the precondition (%v) does not match the %s in record (%v). The object might have been %s", what,
			want, what, have, perhaps))
	}
	if p.UID != nil && *p.UID != "" && *p.UID != pod.UID {
		return conflict("UID", *p.UID, pod.UID, "deleted and then recreated")
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != "" && *p.ResourceVersion != pod.ResourceVersion {
		return conflict("ResourceVersion", *p.ResourceVersion, pod.ResourceVersion, "modified")
	}
	return nil
}

// ignoresBudget: pods that don't run, or are going anyway, are no disruption.
func ignoresBudget(pod *corev1.Pod) bool {
	return podspec.Terminal(pod) || pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func unhealthyMayGo(b *policyv1.PodDisruptionBudget) bool {
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// budget returns the one budget that covers the pod, nil if there is none.
func (e *Evicter) budget(ctx context.Context, pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	list, err := objects.ListAs[*policyv1.PodDisruptionBudget](e.Objects.List(ctx, budgets, pod.Namespace))
	if err != nil {
		return nil, err
	}
	var found *policyv1.PodDisruptionBudget
	for _, b := range list {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if found != nil {
			return nil, plain("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
		}
		found = b
	}
	return found, nil
}

// spend takes one disruption from the budget, in one compare-and-swap, so that many evictions at once can't overdraw
// it.
func (e *Evicter) spend(ctx context.Context, budget *policyv1.PodDisruptionBudget, podName string, dryRun bool) error {
	if dryRun {
		return check(budget)
	}
	_, err := e.Objects.UpdateStatus(ctx, budgets, budget.Namespace, budget.Name,
		func(obj api.Object) (api.Object, error) {
			b, ok := obj.(*policyv1.PodDisruptionBudget)
			if !ok {
				return nil, apierrors.NewInternalError(fmt.Errorf("unexpected object: %T", obj))
			}
			if err := check(b); err != nil {
				return nil, err
			}
			b.Status.DisruptionsAllowed--
			if b.Status.DisruptionsAllowed == 0 {
				meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
					Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
					Reason: policyv1.InsufficientPodsReason, ObservedGeneration: b.Status.ObservedGeneration,
					LastTransitionTime: metav1.NewTime(e.Clock.Now()),
				})
			}
			if b.Status.DisruptedPods == nil {
				b.Status.DisruptedPods = map[string]metav1.Time{}
			}
			b.Status.DisruptedPods[podName] = metav1.NewTime(e.Clock.Now())
			return b, nil
		})
	return err
}

func check(b *policyv1.PodDisruptionBudget) error {
	s := &b.Status
	switch {
	case s.ObservedGeneration < b.Generation:
		return stillProcessed(b.Name)
	case s.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"},
			b.Name, errors.New("pdb disruptions allowed is negative"))
	case len(s.DisruptedPods) > maxDisrupted:
		return apierrors.NewForbidden(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"},
			b.Name, errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case s.DisruptionsAllowed == 0:
		return refusal(0, whyNone(b))
	}
	return nil
}

// whyNone tells why a budget allows no disruption.
func whyNone(b *policyv1.PodDisruptionBudget) string {
	s := &b.Status
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	said := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case said && c.Reason == policyv1.SyncFailedReason: // the numbers can't be trusted
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s",
			b.Name, c.Message)
	case s.CurrentHealthy <= s.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name,
			s.DesiredHealthy, s.CurrentHealthy)
	case said:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name, c.Reason,
			c.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
}

func stillProcessed(budget string) error {
	return refusal(retrySeconds,
		fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
}

func refusal(retryAfter int, message string) error {
	err := apierrors.NewTooManyRequests(violates, retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	return err
}

// remove tells in the pod's status why it goes, and deletes it.
func (e *Evicter) remove(ctx context.Context, pod *corev1.Pod, options *metav1.DeleteOptions, dryRun bool) error {
	if !dryRun {
		now, err := e.Objects.Update(ctx, pods, pod.Namespace, pod.Name, func(obj api.Object) (api.Object, error) {
			p, ok := obj.(*corev1.Pod)
			if !ok {
				return nil, apierrors.NewInternalError(fmt.Errorf("unexpected object: %T", obj))
			}
			if err := precondition(p, options.Preconditions); err != nil {
				return nil, err
			}
			setCondition(p, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
			}, metav1.NewTime(e.Clock.Now()))
			return p, nil
		})
		if err != nil {
			return err
		}
		if hasVersion(options) { // it was this one until the condition was set
			version := now.GetResourceVersion()
			options = options.DeepCopy()
			options.Preconditions.ResourceVersion = &version
		}
	}
	return e.Pods.DeletePod(ctx, pod.Namespace, pod.Name, options)
}
