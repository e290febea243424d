package delegated

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// reviewTimeout is how long the API server may take to answer, tries included.
const reviewTimeout = 10 * time.Second

// ask calls f until it succeeds or fails for good.
func ask(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	pause := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, pause, func(ctx context.Context) (bool, error) {
		last = f(ctx)
		if passing(last) {
			return false, nil
		}
		return true, last
	})
	if last != nil {
		return last
	}
	return err
}

// passing tells whether a failure may be gone at the next try.
func passing(err error) bool {
	if err == nil {
		return false
	}
	_, later := apierrors.SuggestsClientDelay(err)
	return later || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}

// reviewer authenticates tokens by TokenReview.
type reviewer struct{ client kubernetes.Interface }

// AuthenticateToken implements authenticator.Token.
func (r *reviewer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	request := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	var status *authenticationv1.TokenReviewStatus
	if err := ask(ctx, func(ctx context.Context) error {
		answer, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, request, metav1.CreateOptions{})
		if err == nil {
			status = &answer.Status
		}
		return err
	}); err != nil {
		return nil, false, err
	}
	if !status.Authenticated {
		if status.Error != "" {
			return nil, false, errors.New(status.Error)
		}
		return nil, false, nil
	}
	who := &user.DefaultInfo{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups,
		Extra: map[string][]string{}}
	for key, values := range status.User.Extra {
		who.Extra[key] = values
	}
	return &authenticator.Response{User: who}, true, nil
}

// masters may do all, whether or not the API server can be asked.
type masters struct{}

// Authorize implements authorizer.Authorizer.
func (masters) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() != nil && slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

const (
	rememberedAnswers = 8192
	longestRemembered = 10000 // bytes of what a client can make as long as it likes
)

// reviewAuthorizer authorizes by SubjectAccessReview.
type reviewAuthorizer struct {
	client            kubernetes.Interface
	allowTTL, denyTTL time.Duration
	answers           *utilcache.LRUExpireCache
}

func newReviewAuthorizer(client kubernetes.Interface, o *Options, clk clock.PassiveClock) *reviewAuthorizer {
	return &reviewAuthorizer{client: client, allowTTL: o.AllowTTL, denyTTL: o.DenyTTL,
		answers: utilcache.NewLRUExpireCacheWithClock(rememberedAnswers, clk)}
}

// Authorize implements authorizer.Authorizer.
func (j *reviewAuthorizer) Authorize(ctx context.Context,
	a authorizer.Attributes) (authorizer.Decision, string, error) {
	who := a.GetUser()
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: map[string]authorizationv1.ExtraValue{},
	}
	if a.IsResourceRequest() {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource(),
			Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName(),
		}
	} else {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.GetPath(), Verb: a.GetVerb()}
	}
	for key, values := range who.GetExtra() {
		spec.Extra[key] = values
	}
	status, err := j.status(ctx, spec, len(a.GetPath())+len(a.GetVerb()) < longestRemembered)
	switch {
	case err != nil:
		return authorizer.DecisionNoOpinion, "", err
	case status.Denied && status.Allowed:
		return authorizer.DecisionDeny, status.Reason, errors.New("the review of access both allows and denies")
	case status.Denied:
		return authorizer.DecisionDeny, status.Reason, nil
	case status.Allowed:
		return authorizer.DecisionAllow, status.Reason, nil
	}
	return authorizer.DecisionNoOpinion, status.Reason, nil
}

// status is remembered, or asked for.
func (j *reviewAuthorizer) status(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec,
	remember bool) (*authorizationv1.SubjectAccessReviewStatus, error) {
	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	key := string(encoded)
	if known, ok := j.answers.Get(key); ok {
		return known.(*authorizationv1.SubjectAccessReviewStatus), nil
	}
	request := &authorizationv1.SubjectAccessReview{Spec: spec}
	var status *authorizationv1.SubjectAccessReviewStatus
	if err := ask(ctx, func(ctx context.Context) error {
		answer, err := j.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, request, metav1.CreateOptions{})
		if err == nil {
			status = &answer.Status
		}
		return err
	}); err != nil {
		return nil, err
	}
	ttl := j.denyTTL
	if status.Allowed {
		ttl = j.allowTTL
	}
	if remember {
		j.answers.Add(key, status, ttl)
	}
	return status, nil
}
