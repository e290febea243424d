// Package owned decides which objects belong to a controller object, by selector and controller reference
// (https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/): it adopts matching orphans and releases
// its own that no longer match.
package owned

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Plan sorts candidates: keep are the owner's and match, adopt match and have no controller, release are the
// owner's and don't match.
func Plan[T metav1.Object](owner metav1.Object, selector labels.Selector, candidates []T) (keep, adopt, release []T) {
	for _, child := range candidates {
		matches := selector.Matches(labels.Set(child.GetLabels()))
		ref := metav1.GetControllerOfNoCopy(child)
		switch {
		case ref != nil && ref.UID != owner.GetUID(): // another's
		case ref != nil && matches:
			keep = append(keep, child)
		case owner.GetDeletionTimestamp() != nil: // neither takes nor gives any more
		case ref != nil:
			release = append(release, child)
		case matches && child.GetDeletionTimestamp() == nil && child.GetNamespace() == owner.GetNamespace():
			adopt = append(adopt, child)
		}
	}
	return keep, adopt, release
}

// Claimer carries out a Plan.
type Claimer[T metav1.Object] struct {
	Owner metav1.Object
	Kind  schema.GroupVersionKind
	// Finalizers are added to the adopted.
	Finalizers []string
	// Fresh reads the owner from the API server: an owner that is being deleted must not adopt.
	Fresh func(ctx context.Context) (metav1.Object, error)
	// Patch applies a strategic merge patch to child.
	Patch func(ctx context.Context, child T, patch []byte) error
}

// Claim adopts and releases, and returns the children of the owner after that. On an error it returns those it
// is sure of.
func (c Claimer[T]) Claim(ctx context.Context, selector labels.Selector, candidates []T) ([]T, error) {
	keep, adopt, release := Plan(c.Owner, selector, candidates)
	var errs []error
	if len(adopt) > 0 {
		if err := c.mayAdopt(ctx); err != nil {
			errs = append(errs, err)
			adopt = nil
		}
	}
	for _, child := range adopt {
		err := c.Patch(ctx, child, c.adoption(child))
		switch {
		case err == nil:
			keep = append(keep, child)
		case !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("adopt %s: %w", child.GetName(), err))
		}
	}
	for _, child := range release {
		err := c.Patch(ctx, child, c.releasing(child))
		// Gone, or another object of the same name: either way not ours any more.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			errs = append(errs, fmt.Errorf("release %s: %w", child.GetName(), err))
		}
	}
	return keep, errors.Join(errs...)
}

func (c Claimer[T]) mayAdopt(ctx context.Context) error {
	fresh, err := c.Fresh(ctx)
	if err != nil {
		return fmt.Errorf("read %s %s before adopting: %w", c.Kind.Kind, c.Owner.GetName(), err)
	}
	if fresh.GetUID() != c.Owner.GetUID() {
		return fmt.Errorf("%s %s was replaced: uid %s is now %s", c.Kind.Kind, c.Owner.GetName(), c.Owner.GetUID(),
			fresh.GetUID())
	}
	if fresh.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s %s is being deleted and may not adopt", c.Kind.Kind, c.Owner.GetName())
	}
	return nil
}

func (c Claimer[T]) adoption(child T) []byte {
	metadata := map[string]any{
		"ownerReferences": []metav1.OwnerReference{*metav1.NewControllerRef(c.Owner, c.Kind)},
		"uid":             child.GetUID(),
	}
	if len(c.Finalizers) > 0 {
		metadata["finalizers"] = c.Finalizers
	}
	return patch(metadata)
}

func (c Claimer[T]) releasing(child T) []byte {
	metadata := map[string]any{
		"ownerReferences": []map[string]any{{"$patch": "delete", "uid": c.Owner.GetUID()}},
		"uid":             child.GetUID(), // so that a newer object of the same name is left alone
	}
	if len(c.Finalizers) > 0 {
		metadata["$deleteFromPrimitiveList/finalizers"] = c.Finalizers
	}
	return patch(metadata)
}

func patch(metadata map[string]any) []byte {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // strings and references always marshal
	}
	return data
}
