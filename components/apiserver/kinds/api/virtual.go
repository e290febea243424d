package api

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Asked is how a virtual kind is asked for an answer.
type Asked struct {
	DryRun bool // nothing may be changed
	// Admit asks validating admission, which is to see the object when nothing was found to be wrong with it, and
	// before anything is done about it.
	Admit func() error
}

// AnswerFunc fills in what was asked, or does it unless it is a dry run.
type AnswerFunc[P Object] func(ctx context.Context, obj P, asked Asked) (P, error)

// OrUnavailable is f, or a function that answers that this server doesn't serve the kind.
func OrUnavailable[P Object](resource string, f AnswerFunc[P]) AnswerFunc[P] {
	if f != nil {
		return f
	}
	return func(context.Context, P, Asked) (P, error) {
		var none P
		return none, apierrors.NewServiceUnavailable(resource +
			" are not served: the server was built without what answers them")
	}
}
