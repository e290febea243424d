package kinds

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// answer is f, or an answer that tells that nobody serves this kind here.
func answer[P Object](resource string, f func(context.Context, P) (P, error)) func(context.Context, P) (P, error) {
	if f != nil {
		return f
	}
	return func(context.Context, P) (P, error) {
		var none P
		return none, apierrors.NewServiceUnavailable(resource + " are not served: the server was built without what answers them")
	}
}
