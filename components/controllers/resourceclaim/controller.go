package resourceclaim

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/runner"
)

const (
	byOwner      = "resource-claims-by-owner"
	fieldManager = "ResourceClaimController"
)

// key names a pod or a claim.
type key struct {
	claim           bool
	namespace, name string
}

// Controller creates claims and keeps their reservations.
type Controller struct {
	env       runner.Env
	pods      corelisters.PodLister
	claims    resourcelisters.ResourceClaimLister
	owned     cache.Indexer
	templates resourcelisters.ResourceClaimTemplateLister
	loop      *runner.Loop[key]
	metrics   *metrics
}

// New makes the controller; it starts working with Run. Its metrics are registered unless registry is nil.
func New(env runner.Env, registry prometheus.Registerer) (*Controller, error) {
	pods, devices := env.Informers.Core().V1().Pods(), env.Informers.Resource().V1()
	claims, templates := devices.ResourceClaims(), devices.ResourceClaimTemplates()
	if err := claims.Informer().AddIndexers(cache.Indexers{byOwner: ownerKey}); err != nil {
		return nil, err
	}
	c := &Controller{env: env, pods: pods.Lister(), claims: claims.Lister(), owned: claims.Informer().GetIndexer(),
		templates: templates.Lister()}
	made, err := newMetrics(registry, claims.Lister())
	if err != nil {
		return nil, err
	}
	c.metrics = made
	c.loop = runner.NewLoop("resource_claim", env, c.reconcile)
	if err := c.loop.Watch(pods.Informer(), runner.Handle(c.podChanged)); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(claims.Informer(), runner.Handle(c.claimChanged)); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(templates.Informer(), runner.Handle(c.templateChanged))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func ownerKey(obj any) ([]string, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, nil
	}
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

// podChanged enqueues the pod, and when it is over the claims that it had.
func (c *Controller) podChanged(old, new *v1.Pod) {
	last := runner.Last(old, new)
	if len(last.Spec.ResourceClaims) == 0 && last.Status.ExtendedResourceClaimStatus == nil {
		return
	}
	if new != nil {
		c.loop.Add(key{false, new.Namespace, new.Name})
	}
	if new == nil || done(new) || (old != nil && old.UID != new.UID) {
		for _, name := range claimNames(runner.Last(old, new)) {
			c.loop.Add(key{true, last.Namespace, name})
		}
	}
}

// claimNames returns the names of all claims of a pod that are known, that for its extended resources included.
func claimNames(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		name := entry.ResourceClaimName
		if name == nil {
			name, _ = statusOf(pod, entry.Name)
		}
		if name != nil {
			names = append(names, *name)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		names = append(names, extended.ResourceClaimName)
	}
	return names
}

// claimChanged enqueues the claim, and the pod that it was made for or that it is to be reserved for.
func (c *Controller) claimChanged(old, new *resourcev1.ResourceClaim) {
	last := runner.Last(old, new)
	if new != nil {
		c.loop.Add(key{true, new.Namespace, new.Name})
	}
	if owner := metav1.GetControllerOfNoCopy(last); owner != nil && owner.Kind == "Pod" {
		c.loop.Add(key{false, last.Namespace, owner.Name})
		return
	}
	c.wakePods(last.Namespace, func(pod *v1.Pod) bool {
		for i := range pod.Spec.ResourceClaims {
			if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil && *name == last.Name {
				return true
			}
		}
		return false
	})
}

// templateChanged brings back pods whose template was not there.
func (c *Controller) templateChanged(_, new *resourcev1.ResourceClaimTemplate) {
	if new == nil {
		return
	}
	c.wakePods(new.Namespace, func(pod *v1.Pod) bool {
		for i := range pod.Spec.ResourceClaims {
			if name := pod.Spec.ResourceClaims[i].ResourceClaimTemplateName; name != nil && *name == new.Name {
				return true
			}
		}
		return false
	})
}

func (c *Controller) wakePods(namespace string, which func(*v1.Pod) bool) {
	all, err := c.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, pod := range all {
		if which(pod) {
			c.loop.Add(key{false, namespace, pod.Name})
		}
	}
}

func (c *Controller) reconcile(ctx context.Context, k key) error {
	if k.claim {
		claim, err := c.claims.ResourceClaims(k.namespace).Get(k.name)
		if err != nil {
			return runner.IgnoreGone(err)
		}
		return c.syncClaim(ctx, claim)
	}
	pod, err := c.pods.Pods(k.namespace).Get(k.name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if pod.DeletionTimestamp != nil || done(pod) {
		return nil
	}
	return c.syncPod(ctx, pod)
}

// syncPod makes the claims of a pod, tells it their names, and reserves what it uses without the scheduler's doing.
func (c *Controller) syncPod(ctx context.Context, pod *v1.Pod) error {
	made := map[string]string{}
	var errs []error
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		if entry.ResourceClaimTemplateName == nil {
			continue
		}
		name, err := c.ensure(ctx, pod, entry)
		if err != nil {
			c.env.Events.Event(pod, v1.EventTypeWarning, "FailedResourceClaimCreation",
				fmt.Sprintf("PodResourceClaim %s: %v", entry.Name, err))
			errs = append(errs, fmt.Errorf("pod %s, PodResourceClaim %s: %w", runner.Key(pod), entry.Name, err))
			continue
		}
		if name != "" {
			made[entry.Name] = name
		}
	}
	if statuses := mergedStatuses(pod, made); statuses != nil {
		status := applycore.PodStatus()
		for i := range statuses {
			entry := applycore.PodResourceClaimStatus().WithName(statuses[i].Name)
			entry.ResourceClaimName = statuses[i].ResourceClaimName
			status.WithResourceClaimStatuses(entry)
		}
		_, err := c.env.Client.CoreV1().Pods(pod.Namespace).ApplyStatus(ctx,
			applycore.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithStatus(status),
			metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if runner.IgnoreGone(err) != nil {
			errs = append(errs, fmt.Errorf("resource claims of pod %s: %w", runner.Key(pod), err))
		}
	}
	return errors.Join(append(errs, c.reserve(ctx, pod))...)
}

// ensure returns the name of the claim of an entry, which it creates unless it is there; "" if none is needed.
func (c *Controller) ensure(ctx context.Context, pod *v1.Pod, entry *v1.PodResourceClaim) (string, error) {
	if name, known := statusOf(pod, entry.Name); known {
		if name == nil {
			return "", nil
		}
		claim, err := c.claims.ResourceClaims(pod.Namespace).Get(*name)
		if err == nil && !metav1.IsControlledBy(claim, pod) {
			return "", fmt.Errorf("ResourceClaim %s was not created for Pod %s (Pod is not owner)", runner.Key(claim),
				runner.Key(pod))
		}
		if !apierrors.IsNotFound(err) {
			return *name, err
		}
	}
	objects, err := c.owned.ByIndex(byOwner, string(pod.UID))
	if err != nil {
		return "", err
	}
	var owned []*resourcev1.ResourceClaim
	for _, object := range objects {
		if claim, ok := object.(*resourcev1.ResourceClaim); ok {
			owned = append(owned, claim)
		}
	}
	if claim := existing(pod, entry.Name, owned); claim != nil {
		return claim.Name, nil
	}
	template, err := c.templates.ResourceClaimTemplates(pod.Namespace).Get(*entry.ResourceClaimTemplateName)
	if err != nil {
		return "", fmt.Errorf("resource claim template %q: %w", *entry.ResourceClaimTemplateName, err)
	}
	return c.create(ctx, pod, entry.Name, template)
}

// create creates a claim, unless the API server knows one that the informer doesn't have yet: its name is random, so
// that a second one would not be refused.
func (c *Controller) create(
	ctx context.Context, pod *v1.Pod, entry string, template *resourcev1.ResourceClaimTemplate,
) (string, error) {
	client := c.env.Client.ResourceV1().ResourceClaims(pod.Namespace)
	stored, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range stored.Items {
		if existing(pod, entry, []*resourcev1.ResourceClaim{&stored.Items[i]}) != nil {
			return stored.Items[i].Name, nil
		}
	}
	wanted := claimFor(pod, entry, template)
	created, err := client.Create(ctx, wanted, metav1.CreateOptions{})
	c.metrics.created(wanted, err)
	if err != nil {
		return "", fmt.Errorf("create ResourceClaim: %w", err)
	}
	return created.Name, nil
}

// reserve adds the pod to the claims that it uses on its node.
func (c *Controller) reserve(ctx context.Context, pod *v1.Pod) error {
	for _, name := range claimNames(pod) {
		claim, err := c.claims.ResourceClaims(pod.Namespace).Get(name)
		if err != nil || !missesReservation(claim, pod) {
			continue
		}
		changed := claim.DeepCopy()
		changed.Status.ReservedFor = append(changed.Status.ReservedFor, reservation(pod))
		if _, err := c.env.Client.ResourceV1().ResourceClaims(pod.Namespace).UpdateStatus(ctx, changed,
			metav1.UpdateOptions{}); runner.IgnoreGone(err) != nil {
			return fmt.Errorf("reserve claim %s: %w", runner.Key(claim), err)
		}
	}
	return nil
}

// syncClaim frees a claim from pods that are gone.
func (c *Controller) syncClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	var failed error
	gone := func(name string, uid types.UID) bool {
		pod, err := c.podByUID(ctx, claim.Namespace, name, uid)
		failed = errors.Join(failed, err)
		return err == nil && (pod == nil || done(pod))
	}
	var owner *v1.Pod
	if ref := metav1.GetControllerOfNoCopy(claim); ref != nil && ref.Kind == "Pod" {
		if pod, err := c.pods.Pods(claim.Namespace).Get(ref.Name); err == nil && pod.UID == ref.UID {
			owner = pod
		}
	}
	plan := planClaim(claim, gone, owner)
	if failed != nil {
		return failed
	}
	client := c.env.Client.ResourceV1().ResourceClaims(claim.Namespace)
	changed, err := claim.DeepCopy(), error(nil)
	if plan.status != nil {
		changed.Status = *plan.status
		if changed, err = client.UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return runner.IgnoreGone(err)
		}
	}
	if plan.finalizers != nil {
		changed.Finalizers = plan.finalizers
		if _, err = client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return runner.IgnoreGone(err)
		}
	}
	if !plan.delete {
		return nil
	}
	return runner.IgnoreGone(client.Delete(ctx, claim.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(claim.UID))}))
}

// podByUID returns a pod, nil if it is gone. The API server is asked about a pod that the informer doesn't have.
func (c *Controller) podByUID(ctx context.Context, namespace, name string, uid types.UID) (*v1.Pod, error) {
	pod, err := c.pods.Pods(namespace).Get(name)
	if err == nil && pod.UID == uid {
		return pod, nil
	}
	pod, err = c.env.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != uid:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return pod, nil
}
