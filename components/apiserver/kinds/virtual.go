package kinds

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An answer fills in what was asked, or does it unless it is a dry run.
type answer[P Object] func(ctx context.Context, obj P, dryRun bool) (P, error)

// served is f, or an answer that tells that nobody serves this kind here.
func served[P Object](resource string, f answer[P]) answer[P] {
	if f != nil {
		return f
	}
	return func(context.Context, P, bool) (P, error) {
		var none P
		return none, apierrors.NewServiceUnavailable(resource + " are not served: the server was built without what answers them")
	}
}

// review is f, which changes nothing anyway.
func review[P Object](resource string, f func(context.Context, P) (P, error)) answer[P] {
	if f == nil {
		return served[P](resource, nil)
	}
	return func(ctx context.Context, obj P, _ bool) (P, error) { return f(ctx, obj) }
}

// valid is f for what passes the validation. Errors about reviews name neither kind nor object, as upstream's don't.
func valid[P Object](group string, validate func(P) field.ErrorList, f answer[P]) answer[P] {
	return func(ctx context.Context, obj P, dryRun bool) (P, error) {
		if errs := validate(obj); len(errs) > 0 {
			var none P
			return none, apierrors.NewInvalid(schema.GroupKind{Group: group}, "", errs)
		}
		return f(ctx, obj, dryRun)
	}
}
