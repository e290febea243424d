package answer

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EarlyKey is where the context of a request has true, if the request came before all that the server serves was known.
type EarlyKey struct{}

// Unknown answers a request for what nobody serves. One that came too early may be for what somebody is about to serve: that it
// isn't there would be a lie on which controllers act, so it is to be tried again.
func Unknown(w http.ResponseWriter, r *http.Request) {
	if !isEarly(r.Context()) {
		http.NotFound(w, r)
		return
	}
	err := apierrors.NewServiceUnavailable("the request has been made before all known HTTP paths have been installed, please try again")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 5}
	Error(w, r, err)
}

func isEarly(ctx context.Context) bool {
	early, _ := ctx.Value(EarlyKey{}).(bool)
	return early
}
