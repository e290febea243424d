package kinds

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Asked is how a virtual kind is asked for an answer.
type Asked struct {
	DryRun bool // nothing may be changed
	// Admit asks validating admission, which is to see the object when nothing was found to be wrong with it, and before
	// anything is done about it.
	Admit func() error
}

// An answer fills in what was asked, or does it unless it is a dry run.
type answer[P Object] func(ctx context.Context, obj P, asked Asked) (P, error)

// served is f, or an answer that tells that nobody serves this kind here.
func served[P Object](resource string, f answer[P]) answer[P] {
	if f != nil {
		return f
	}
	return func(context.Context, P, Asked) (P, error) {
		var none P
		return none, apierrors.NewServiceUnavailable(resource + " are not served: the server was built without what answers them")
	}
}

// review is f for what passes the check and is admitted; check may be nil. It changes nothing anyway.
func review[P Object](resource string, check func(P) error, f func(context.Context, P) (P, error)) answer[P] {
	if f == nil {
		return served[P](resource, nil)
	}
	return func(ctx context.Context, obj P, asked Asked) (P, error) {
		var none P
		if check != nil {
			if err := check(obj); err != nil {
				return none, err
			}
		}
		if err := asked.Admit(); err != nil {
			return none, err
		}
		return f(ctx, obj)
	}
}

// valid is the check by a validation. Errors about reviews name neither kind nor object, as upstream's don't.
func valid[P Object](group string, validate func(P) field.ErrorList) func(P) error {
	return func(obj P) error {
		if errs := validate(obj); len(errs) > 0 {
			return apierrors.NewInvalid(schema.GroupKind{Group: group}, "", errs)
		}
		return nil
	}
}
