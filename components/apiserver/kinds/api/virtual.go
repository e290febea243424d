package api

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// CreateRequest is how an object of a virtual kind is created.
type CreateRequest struct {
	DryRun bool // nothing may be changed
	// Admit asks validating admission, which is to see the object when nothing was found to be wrong with it, and
	// before anything is done about it.
	Admit func() error
}

// CreateFunc fills in the object, or carries out what it asks for unless it is a dry run.
type CreateFunc[P Object] func(ctx context.Context, obj P, asked CreateRequest) (P, error)

// OrUnavailable is f, or a function that answers that this server doesn't serve the kind.
func OrUnavailable[P Object](resource string, f CreateFunc[P]) CreateFunc[P] {
	if f != nil {
		return f
	}
	return func(context.Context, P, CreateRequest) (P, error) {
		var none P
		return none, apierrors.NewServiceUnavailable(resource +
			" are not served: the server was built without what answers them")
	}
}
