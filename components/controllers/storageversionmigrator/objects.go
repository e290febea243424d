package storageversionmigrator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// manager is the field manager of the empty applies; it comes to own nothing.
const manager = "storage-version-migrator-controller"

// nowhere is no valid name of a namespace: a list there is empty, and tells the current version all the same.
const nowhere = "@nowhere!"

// page is how many objects are listed at once.
const page = 500

func requiredVerbs() []string { return []string{"update", "patch", "list"} }

// found is a resource as discovery tells of it.
type found struct {
	metav1.APIResource
	gvr schema.GroupVersionResource
}

func (f *found) migratable() bool {
	return !slices.ContainsFunc(requiredVerbs(), func(verb string) bool { return !slices.Contains(f.Verbs, verb) })
}

// find returns a resource in a version of its group, the preferred one first; nil if it isn't served.
func (c *Controller) find(resource metav1.GroupResource) (*found, error) {
	groups, err := c.sources.Discovery.ServerGroups()
	if err != nil {
		return nil, err
	}
	for _, group := range groups.Groups {
		if group.Name != resource.Group {
			continue
		}
		for _, version := range append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...) {
			list, err := c.sources.Discovery.ServerResourcesForGroupVersion(version.GroupVersion)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, r := range list.APIResources {
				if r.Name == resource.Resource {
					return &found{r, schema.GroupVersionResource{Group: resource.Group, Version: version.Version,
						Resource: r.Name}}, nil
				}
			}
		}
	}
	return nil, nil
}

// latest is the version that a list has now.
func (c *Controller) latest(ctx context.Context, r *found) (string, error) {
	in := ""
	if r.Namespaced {
		in = nowhere
	}
	list, err := c.sources.Metadata.Resource(r.gvr).Namespace(in).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("latest version of %s: %w", r.gvr, err)
	}
	return list.ResourceVersion, nil
}

// migrate writes all objects again that were last written up to a version. fatal is why that can't be done, err what
// may be over at the next try; those that were written before are left alone then, as they are newer.
func (c *Controller) migrate(ctx context.Context, r *found, until string) (fatal, err error) {
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := c.sources.Metadata.Resource(r.gvr).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if fatal, err := c.rewrite(ctx, r, &list.Items[i], until); fatal != nil || err != nil {
				return fatal, err
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil, nil
		}
	}
}

// rewrite applies an empty patch to an object with its UID and resourceVersion. An object that was changed, deleted or
// replaced meanwhile is a conflict: another client has already rewritten it.
func (c *Controller) rewrite(ctx context.Context, r *found, obj *metav1.PartialObjectMetadata,
	until string) (fatal, err error) {
	order, err := resourceversion.CompareResourceVersion(obj.ResourceVersion, until)
	if err != nil {
		return err, nil
	}
	if order > 0 {
		return nil, nil
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": r.gvr.GroupVersion().String(), "kind": r.Kind,
		"metadata": map[string]any{"uid": obj.UID, "resourceVersion": obj.ResourceVersion},
	})
	if err != nil {
		return err, nil
	}
	_, err = c.sources.Dynamic.Resource(r.gvr).Namespace(obj.Namespace).Patch(ctx, obj.Name, types.ApplyPatchType,
		patch, metav1.PatchOptions{FieldManager: manager})
	switch {
	case err == nil, apierrors.IsConflict(err):
		return nil, nil
	case ctx.Err() != nil, passing(err):
		return nil, err
	}
	return err, nil
}

// passing tells of an error that another try may not meet.
func passing(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}
