package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// deletionLeeway is how long a token outlives the deletion of what it is bound to, so that a pod can say goodbye.
const deletionLeeway = 60 * time.Second

// maxTokenBytes bounds what is parsed.
const maxTokenBytes = 64 << 10

var (
	errExpired     = errors.New("service account token has expired")
	errNotYet      = errors.New("service account token is not valid yet")
	errFuture      = errors.New("service account token is issued in the future")
	errInvalidated = errors.New("service account token has been invalidated")
	errSignature   = jose.ErrCryptoFailure // whatever is wrong with it: upstream says no more
	errNoKeys      = errors.New("invalid signature, no keys found")
	// isn't returned to clients: another authenticator may know the token
	errUnread = errors.New("not a token that is signed")
)

// algorithms that signatures may have.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// AuthenticateToken implements authenticator.Token. A token of another issuer is no error: another authenticator may
// know it.
func (t *Tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if len(token) > maxTokenBytes {
		return nil, false, nil
	}
	hash := sha256.Sum256([]byte(token))
	c := t.recall(hash)
	if c == nil {
		if !t.ours(token) {
			return nil, false, nil
		}
		var err error
		if c, err = t.verify(ctx, token, hash); errors.Is(err, errUnread) {
			return nil, false, nil
		} else if err != nil {
			return nil, false, err
		}
	}
	audiences, err := t.checkAudiences(ctx, c)
	if err != nil {
		return nil, false, err
	}
	if err := t.checkTimes(c); err != nil {
		return nil, false, err
	}
	var info *serviceaccount.ServiceAccountInfo
	if c.Issuer == legacyIssuer {
		info, err = t.checkLegacy(ctx, c, token)
	} else {
		info, err = t.checkBinding(ctx, c)
		if err == nil {
			t.noteUse(ctx, c)
		}
	}
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: info.UserInfo(), Audiences: audiences}, true, nil
}

// ours looks at the issuer before anything is verified.
func (t *Tokens) ours(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &c) != nil {
		return false
	}
	return c.Issuer == legacyIssuer || slices.Contains(t.cfg.Issuers, c.Issuer)
}

// recall returns the claims of a token that was verified before, or nil. They are shared and must not be changed.
func (t *Tokens) recall(hash [sha256.Size]byte) *claims {
	if known, ok := t.ring.Load().verified.Get(hash); ok {
		return known.(*claims)
	}
	return nil
}

// verify returns the claims of a token that one of the keys has signed, and remembers them by its hash.
func (t *Tokens) verify(ctx context.Context, token string, hash [sha256.Size]byte) (*claims, error) {
	ring := t.ring.Load()
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		var other *jose.ErrUnexpectedSignatureAlgorithm
		if errors.As(err, &other) {
			return nil, errSignature
		}
		return nil, errUnread
	}
	kid := ""
	if len(parsed.Headers) > 0 {
		kid = parsed.Headers[0].KeyID
	}
	if t.cfg.Remote != nil && !ring.knows(kid) {
		if err := t.cfg.Remote.Refresh(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to find key of service account token", "kid", kid)
			return nil, errNoKeys
		}
		ring = t.ring.Load()
	}
	if !ring.knows(kid) {
		return nil, errNoKeys
	}
	for i := range ring.keys {
		if kid != "" && kid != ring.keys[i].KeyID {
			continue
		}
		c := &claims{}
		if parsed.Claims(ring.keys[i].Key, c) == nil {
			ring.verified.Add(hash, c)
			return c, nil
		}
	}
	return nil, errSignature
}

// checkTimes allows for the clocks of other servers: a token may come from one whose is a little ahead.
func (t *Tokens) checkTimes(c *claims) error {
	err := c.ValidateWithLeeway(jwt.Expected{Time: t.cfg.Clock.Now()}, jwt.DefaultLeeway)
	switch {
	case err == nil:
	case errors.Is(err, jwt.ErrExpired):
		return errExpired
	case errors.Is(err, jwt.ErrNotValidYet):
		return errNotYet
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errFuture
	default:
		return fmt.Errorf("service account token claims could not be validated: %w", err)
	}
	if c.Expiry == nil && c.Issuer != legacyIssuer {
		return errExpired
	}
	return nil
}

// checkAudiences returns those for which the token was asked and made. Tokens in Secrets name none and are for this
// server; they are noted even if they turn out to be of no use.
func (t *Tokens) checkAudiences(ctx context.Context, c *claims) (authenticator.Audiences, error) {
	made := authenticator.Audiences(c.Audience)
	if len(made) == 0 {
		t.noteLegacy(ctx, c)
		made = t.cfg.Audiences
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = t.cfg.Audiences
	}
	common := made.Intersect(wanted)
	if len(common) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", made, wanted)
	}
	return common, nil
}

// checkBinding makes sure that all that the token is bound to still exists.
func (t *Tokens) checkBinding(ctx context.Context, c *claims) (*serviceaccount.ServiceAccountInfo, error) {
	b := c.Kubernetes
	if b == nil || b.Namespace == "" || b.ServiceAccount.Name == "" || b.ServiceAccount.UID == "" {
		return nil, errors.New("service account token lacks the claim kubernetes.io")
	}
	if c.Subject != serviceaccount.MakeUsername(b.Namespace, b.ServiceAccount.Name) {
		return nil, errors.New("service account token names another subject than account")
	}
	type bound struct {
		resource  string
		namespace string
		ref       *ref
	}
	if err := t.accountExists(ctx, b); err != nil {
		return nil, err
	}
	all := []bound{{"secrets", b.Namespace, b.Secret}, {"pods", b.Namespace, b.Pod}}
	if b.Pod == nil {
		all = append(all, bound{"nodes", "", b.Node}) // with a pod, the node is information only
	}
	for _, x := range all {
		if x.ref == nil {
			continue
		}
		if err := t.exists(ctx, corev1.Resource(x.resource), x.namespace, x.ref); err != nil {
			return nil, err
		}
	}
	info := &serviceaccount.ServiceAccountInfo{
		Namespace: b.Namespace, Name: b.ServiceAccount.Name, UID: b.ServiceAccount.UID,
		CredentialID: tokenjwt.CredentialIDForJTI(c.ID),
	}
	if b.Pod != nil {
		info.PodName, info.PodUID = b.Pod.Name, b.Pod.UID
	}
	if b.Node != nil {
		info.NodeName, info.NodeUID = b.Node.Name, b.Node.UID
	}
	return info, nil
}

// accountExists fails as exists does, but says why.
func (t *Tokens) accountExists(ctx context.Context, b *binding) error {
	account, err := t.lookup(ctx, corev1.Resource("serviceaccounts"), b.Namespace, &b.ServiceAccount)
	switch {
	case err != nil:
		return err
	case string(account.GetUID()) != b.ServiceAccount.UID:
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", account.GetUID(), b.ServiceAccount.UID)
	case t.gone(account):
		return fmt.Errorf("service account %s/%s has been deleted", b.Namespace, b.ServiceAccount.Name)
	}
	return nil
}

// exists fails when the object is gone, is another of the same name, or has been going for longer than the leeway.
func (t *Tokens) exists(ctx context.Context, resource schema.GroupResource, namespace string, r *ref) error {
	obj, err := t.lookup(ctx, resource, namespace, r)
	switch {
	case err != nil:
		klog.FromContext(ctx).V(4).Info("Failed to read bound object of service account token", "resource",
			resource.Resource, "err", err)
		return errInvalidated
	case string(obj.GetUID()) != r.UID:
		what := strings.TrimSuffix(resource.Resource, "s")
		return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", what, obj.GetUID(), what,
			r.UID)
	case t.gone(obj):
		return errInvalidated
	}
	return nil
}

// lookup returns an object. Memory may be a moment old: what it doesn't know, or knows as another of the name, is read
// from the store.
func (t *Tokens) lookup(ctx context.Context, resource schema.GroupResource, namespace string, r *ref) (api.Object,
	error) {
	obj, err := t.cfg.Objects.Get(ctx, resource, namespace, r.Name)
	if apierrors.IsNotFound(err) || (err == nil && r.UID != "" && string(obj.GetUID()) != r.UID) {
		return t.cfg.Objects.Live(ctx, resource, namespace, r.Name)
	}
	return obj, err
}

func (t *Tokens) gone(obj metav1.Object) bool {
	at := obj.GetDeletionTimestamp()
	return at != nil && at.Time.Before(t.cfg.Clock.Now().Add(-deletionLeeway))
}
