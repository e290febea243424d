package answer

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EarlyKey is where the context of a request has true, if the request came before all that the server serves was known.
type EarlyKey struct{}

// Unknown answers a request for a resource that isn't served. Early in the server's life the resource may be about to
// be served: a 404 would be false and controllers would act on it, so the client is told to retry.
func Unknown(w http.ResponseWriter, r *http.Request) {
	if !isEarly(r.Context()) {
		http.NotFound(w, r)
		return
	}
	err := apierrors.NewServiceUnavailable(
		"the request has been made before all known HTTP paths have been installed, please try again")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 5}
	Error(w, r, err)
}

func isEarly(ctx context.Context) bool {
	early, _ := ctx.Value(EarlyKey{}).(bool)
	return early
}
