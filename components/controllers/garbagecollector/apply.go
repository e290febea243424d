package garbagecollector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/runner"
)

func (c *Controller) client(o *object) metadata.ResourceInterface {
	if o.namespace == "" {
		return c.sources.Metadata.Resource(o.resource)
	}
	return c.sources.Metadata.Resource(o.resource).Namespace(o.namespace)
}

// live reads the object itself. If it is gone, or another one has its name, nil is returned and the graph knows.
func (c *Controller) live(ctx context.Context, o *object) (*metav1.PartialObjectMetadata, error) {
	found, err := c.client(o).Get(ctx, o.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && found.UID != o.uid) {
		c.monitors.notify(c.graph.remove(o.uid))
		return nil, nil
	}
	return found, err
}

// collect deletes an object without remaining owners, or removes references to owners that are gone.
func (c *Controller) collect(ctx context.Context, o *object) error {
	now, err := c.live(ctx, o)
	if err != nil || now == nil || now.DeletionTimestamp != nil {
		return err
	}
	owners, err := c.standings(ctx, o, now)
	if err != nil {
		return err
	}
	f := facts{
		owners:     owners,
		orphan:     slices.Contains(now.Finalizers, metav1.FinalizerOrphanDependents),
		foreground: slices.Contains(now.Finalizers, metav1.FinalizerDeleteDependents),
	}
	for _, dependent := range c.graph.dependentsOf(o.uid) {
		f.dependents = true
		f.waitingDependents = f.waitingDependents || dependent.waits()
	}
	todo := decide(f)
	switch {
	case len(todo.dropOwners) > 0:
		return c.dropOwners(ctx, o, now, todo.dropOwners)
	case todo.policy == "":
		return nil
	}
	if todo.unblock {
		if now, err = c.unblock(ctx, o, now); err != nil {
			return runner.IgnoreGone(err)
		}
	}
	klog.FromContext(ctx).V(2).Info("Deleting object", "kind", o.kind.Kind, "namespace", o.namespace, "name", o.name,
		"policy", todo.policy)
	return runner.IgnoreGone(c.client(o).Delete(ctx, o.name, metav1.DeleteOptions{
		PropagationPolicy: &todo.policy,
		Preconditions:     &metav1.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion},
	}))
}

var errClusterScoped = errors.New("cluster-scoped object names an owner inside a namespace")

func (c *Controller) standings(ctx context.Context, o *object,
	now *metav1.PartialObjectMetadata) (map[types.UID]standing, error) {
	standings := map[types.UID]standing{}
	for _, ref := range now.OwnerReferences {
		s, err := c.standing(ctx, ref, now.Namespace)
		if errors.Is(err, errClusterScoped) {
			c.tellOwnerIsElsewhere(o, ref, now.Namespace)
			s, err = solid, nil
		}
		if err != nil {
			return nil, fmt.Errorf("owner %s %s of %s %s/%s: %w", ref.Kind, ref.Name, o.kind.Kind, o.namespace,
				o.name, err)
		}
		if s == dangling {
			if elsewhere := c.graph.get(ref.UID); elsewhere != nil && elsewhere.namespace != "" &&
				elsewhere.namespace != now.Namespace {
				c.tellOwnerIsElsewhere(o, ref, now.Namespace)
			}
		}
		standings[ref.UID] = s
	}
	return standings, nil
}

// tellOwnerIsElsewhere records that an owner can't be in the namespace of what it should own, which is "" for
// cluster-scoped objects.
func (c *Controller) tellOwnerIsElsewhere(o *object, ref metav1.OwnerReference, namespace string) {
	c.env.Events.Eventf(subject(o), v1.EventTypeWarning, "OwnerRefInvalidNamespace",
		"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, namespace, ref.Name, ref.UID, namespace)
}

func subject(o *object) *v1.ObjectReference {
	version, kind := o.kind.ToAPIVersionAndKind()
	return &v1.ObjectReference{APIVersion: version, Kind: kind, Namespace: o.namespace, Name: o.name, UID: o.uid}
}

// standing reads from the API server: a cache may be stale, and a deletion can't be undone.
func (c *Controller) standing(ctx context.Context, ref metav1.OwnerReference, namespace string) (standing, error) {
	if _, gone := c.absent.Get(place(ref, namespace)); gone {
		return dangling, nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return solid, err
	}
	mapping, err := c.sources.Mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	if err != nil {
		if meta.IsNoMatchError(err) {
			c.definitionsChanged()
		}
		return solid, err // a kind that is not served now may come back
	}
	var owners metadata.ResourceInterface = c.sources.Metadata.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if namespace == "" {
			return solid, errClusterScoped
		}
		owners = c.sources.Metadata.Resource(mapping.Resource).Namespace(namespace)
	}
	owner, err := owners.Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && owner.UID != ref.UID:
		c.absent.Add(place(ref, namespace), nil)
		return dangling, nil
	case err != nil:
		return solid, err
	case owner.DeletionTimestamp != nil && slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents):
		return waiting, nil
	}
	return solid, nil
}

// awaitDependents lets an object go once no dependent blocks it.
func (c *Controller) awaitDependents(ctx context.Context, o *object) error {
	blocked, dependents := false, c.graph.dependentsOf(o.uid)
	c.loop.Looked(task{uid: o.uid}, len(dependents))
	for _, dependent := range dependents {
		if !dependent.blocks(o.uid) {
			continue
		}
		blocked = true
		if !dependent.waits() {
			c.loop.Add(task{uid: dependent.uid})
		}
	}
	if blocked {
		return nil // each dependent that goes brings us back
	}
	return c.dropFinalizer(ctx, o, metav1.FinalizerDeleteDependents)
}

// letGo frees the dependents of an object that is going, and then lets it go.
func (c *Controller) letGo(ctx context.Context, o *object) error {
	if !o.orphans() {
		return nil
	}
	var errs []error
	for _, dependent := range c.graph.dependentsOf(o.uid) {
		now, err := c.live(ctx, dependent)
		if err == nil && now != nil {
			err = c.dropOwners(ctx, dependent, now, []types.UID{o.uid})
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.dropFinalizer(ctx, o, metav1.FinalizerOrphanDependents)
}

func (c *Controller) dropOwners(ctx context.Context, o *object, now *metav1.PartialObjectMetadata,
	owners []types.UID) error {
	left := slices.DeleteFunc(slices.Clone(now.OwnerReferences),
		func(ref metav1.OwnerReference) bool { return slices.Contains(owners, ref.UID) })
	if len(left) == len(now.OwnerReferences) {
		return nil
	}
	_, err := c.patch(ctx, o, now, map[string]any{"ownerReferences": left})
	return runner.IgnoreGone(err)
}

func (c *Controller) unblock(ctx context.Context, o *object,
	now *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	refs := slices.Clone(now.OwnerReferences)
	for i := range refs {
		refs[i].BlockOwnerDeletion = new(bool)
	}
	return c.patch(ctx, o, now, map[string]any{"ownerReferences": refs})
}

func (c *Controller) dropFinalizer(ctx context.Context, o *object, finalizer string) error {
	now, err := c.live(ctx, o)
	if err != nil || now == nil || !slices.Contains(now.Finalizers, finalizer) {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(now.Finalizers), func(f string) bool { return f == finalizer })
	_, err = c.patch(ctx, o, now, map[string]any{"finalizers": left})
	return runner.IgnoreGone(err)
}

// patch merges metadata into the version that was decided on; a newer one is a conflict, and decided on again.
func (c *Controller) patch(ctx context.Context, o *object, now *metav1.PartialObjectMetadata,
	metadata map[string]any) (*metav1.PartialObjectMetadata, error) {
	metadata["uid"], metadata["resourceVersion"] = now.UID, now.ResourceVersion
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	return c.client(o).Patch(ctx, o.name, types.MergePatchType, body, metav1.PatchOptions{})
}
