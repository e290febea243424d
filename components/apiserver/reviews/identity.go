package reviews

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// TokenAuthenticator says whose token it is, for one of the audiences; none means those of this server.
type TokenAuthenticator interface {
	AuthenticateToken(ctx context.Context, token string, audiences []string) (*authenticator.Response, bool, error)
}

// Token returns what answers a TokenReview.
func Token(tokens TokenAuthenticator) func(context.Context,
	*authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	return func(ctx context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
		response, ok, err := tokens.AuthenticateToken(ctx, r.Spec.Token, r.Spec.Audiences)
		// what else the sent status says stays unless it is found out, as upstream
		r.Status.Authenticated = ok && err == nil
		if err != nil {
			r.Status.Error = err.Error()
		}
		if r.Status.Authenticated {
			r.Status.User = userInfo(response.User)
			r.Status.Audiences = response.Audiences
		}
		return r, nil
	}
}

// Self returns what answers a SelfSubjectReview: a new one, whatever the given one says, as upstream.
func Self(now func() time.Time) func(context.Context,
	*authenticationv1.SelfSubjectReview) (*authenticationv1.SelfSubjectReview, error) {
	return func(ctx context.Context, _ *authenticationv1.SelfSubjectReview) (*authenticationv1.SelfSubjectReview,
		error) {
		u, ok := request.UserFrom(ctx)
		if !ok {
			return nil, apierrors.NewBadRequest("no user present on request")
		}
		return &authenticationv1.SelfSubjectReview{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now())},
			Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(u)},
		}, nil
	}
}

func userInfo(u user.Info) authenticationv1.UserInfo {
	out := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	if extra := u.GetExtra(); len(extra) > 0 {
		out.Extra = make(map[string]authenticationv1.ExtraValue, len(extra))
		for k, v := range extra {
			out.Extra[k] = v
		}
	}
	return out
}
