package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/internal/zpages"
)

// Guard authenticates requests and authorizes them
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/).
type Guard struct {
	// Certificates authenticates by client certificate; nil does not.
	Certificates authenticator.Request
	// Client reviews tokens and access.
	Client kubernetes.Interface
	// ReviewTokens lets the API server authenticate bearer tokens.
	ReviewTokens bool
	// Anonymous lets requests without credentials through as system:anonymous.
	Anonymous bool
	// AlwaysAllow authorizes every authenticated request without a SubjectAccessReview.
	AlwaysAllow bool
	NodeName    string
	// TokenTTL, AllowTTL and DenyTTL are how long answers are remembered.
	TokenTTL, AllowTTL, DenyTTL time.Duration

	tokens *utilcache.LRUExpireCache
	access *utilcache.LRUExpireCache
}

const remembered = 1024 // answers of each sort

func (g *Guard) protect(next http.Handler) http.Handler {
	g.tokens, g.access = utilcache.NewLRUExpireCache(remembered), utilcache.NewLRUExpireCache(remembered)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.authenticate(r)
		if err != nil || who == nil {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		allowed, reason := g.allowed(r.Context(), who, r)
		if !allowed {
			http.Error(w, reason, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *Guard) authenticate(r *http.Request) (user.Info, error) {
	if g.Certificates != nil {
		response, ok, err := g.Certificates.AuthenticateRequest(r)
		if err != nil {
			return nil, err
		}
		if ok {
			return withGroup(response.User, user.AllAuthenticated), nil
		}
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && g.ReviewTokens {
		return g.review(r.Context(), strings.TrimSpace(token))
	}
	if g.Anonymous {
		return &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, nil
	}
	return nil, nil
}

func withGroup(u user.Info, group string) user.Info {
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(),
		Groups: append(append([]string{}, u.GetGroups()...), group), Extra: u.GetExtra()}
}

// review asks the API server about a token; a yes is remembered under the token's hash.
func (g *Guard) review(ctx context.Context, token string) (user.Info, error) {
	key := sha256.Sum256([]byte(token))
	if known, ok := g.tokens.Get(key); ok {
		return known.(user.Info), nil
	}
	review, err := g.Client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if !review.Status.Authenticated {
		return nil, nil
	}
	extra := map[string][]string{}
	for name, values := range review.Status.User.Extra {
		extra[name] = values
	}
	who := &user.DefaultInfo{Name: review.Status.User.Username, UID: review.Status.User.UID,
		Groups: review.Status.User.Groups, Extra: extra}
	g.tokens.Add(key, user.Info(who), g.TokenTTL)
	return who, nil
}

// allowed tells whether one of the permissions that fit the request is granted.
func (g *Guard) allowed(ctx context.Context, who user.Info, r *http.Request) (bool, string) {
	if g.AlwaysAllow {
		return true, ""
	}
	verb := verbs[r.Method]
	var reason string
	for _, subresource := range subresources(r.URL.Path) {
		key := accessKey(who, verb, subresource)
		if granted, ok := g.access.Get(key); ok {
			if granted.(bool) {
				return true, ""
			}
		} else {
			review, err := g.ask(ctx, who, verb, subresource)
			if err != nil {
				return false, "Authorization error: " + err.Error()
			}
			ttl := g.DenyTTL
			if review.Allowed {
				ttl = g.AllowTTL
			}
			g.access.Add(key, review.Allowed, ttl)
			if review.Allowed {
				return true, ""
			}
		}
		reason = fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", who.GetName(), verb,
			subresources(r.URL.Path))
	}
	return false, reason
}

// accessKey names all that an answer depends on. Maps are printed in the order of their keys.
func accessKey(who user.Info, verb, subresource string) string {
	return fmt.Sprintf("%q %q %q %q %q %q", who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra(), verb,
		subresource)
}

func (g *Guard) ask(ctx context.Context, who user.Info, verb,
	subresource string) (*authorizationv1.SubjectAccessReviewStatus, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range who.GetExtra() {
		extra[name] = values
	}
	review, err := g.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: g.NodeName,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &review.Status, nil
}

var verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create", http.MethodPut: "update",
	http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// subresources of nodes that permit a path, the finest first (KEP-2862).
func subresources(path string) []string {
	under := func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
	switch {
	case under("/stats"):
		return []string{"stats"}
	case under("/metrics"):
		return []string{"metrics"}
	case under("/logs"):
		return []string{"log"}
	case under("/checkpoint"):
		return []string{"checkpoint"}
	case under(zpages.StatusPath):
		return []string{"statusz"}
	case under(zpages.FlagsPath):
		return []string{"configz"}
	case under("/healthz"):
		return []string{"healthz", "proxy"}
	case under("/configz"):
		return []string{"configz", "proxy"}
	case under("/pods"), under("/runningpods"):
		return []string{"pods", "proxy"}
	default:
		return []string{"proxy"}
	}
}
