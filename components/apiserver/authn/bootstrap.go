package authn

import (
	"context"
	"crypto/subtle"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/objects"
)

// bootstrapTokens authenticates the tokens by which nodes join
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
type bootstrapTokens struct {
	objects objects.Reader
	clock   clock.PassiveClock
}

const bootstrapGroup = "system:bootstrappers"

// splitToken takes a token of the form "id.key" apart: 6 and 16 lower-case letters and digits.
func splitToken(token string) (id, key string, ok bool) {
	id, key, ok = strings.Cut(token, ".")
	return id, key, ok && len(id) == 6 && len(key) == 16 && consistsOf(id+key, "")
}

// extraGroup reports whether a token may carry this group: "system:bootstrappers:" and a name.
func extraGroup(group string) bool {
	name, ok := strings.CutPrefix(group, bootstrapGroup+":")
	return ok && name != "" && len(name) <= 256 && consistsOf(name, ":-") && consistsOf(name[len(name)-1:], "")
}

// consistsOf: lower-case letters, digits, and the others given.
func consistsOf(s, others string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune(others, r)
	}) < 0
}

// AuthenticateToken implements authenticator.Token. A token that is unknown, expired, or not meant for this is no
// error: another authenticator may know it.
func (b *bootstrapTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	id, key, ok := splitToken(token)
	if !ok {
		return nil, false, nil
	}
	secret, err := objects.As[*corev1.Secret](
		b.objects.Get(ctx, corev1.Resource("secrets"), "kube-system", "bootstrap-token-"+id))
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	groups, ok := b.check(secret, id, key)
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: "system:bootstrap:" + id, Groups: groups}}, true, nil
}

func (b *bootstrapTokens) check(secret *corev1.Secret, id, key string) (groups []string, ok bool) {
	data := func(name string) string { return string(secret.Data[name]) }
	if secret.DeletionTimestamp != nil || secret.Type != corev1.SecretTypeBootstrapToken ||
		data("token-id") != id || data("usage-bootstrap-authentication") != "true" ||
		subtle.ConstantTimeCompare(secret.Data["token-secret"], []byte(key)) != 1 {
		return nil, false
	}
	if expiration := data("expiration"); expiration != "" {
		at, err := time.Parse(time.RFC3339, expiration)
		if err != nil || !b.clock.Now().Before(at) {
			return nil, false
		}
	}
	groups = []string{bootstrapGroup}
	if extra := data("auth-extra-groups"); extra != "" {
		for _, g := range strings.Split(extra, ",") {
			if !extraGroup(g) {
				return nil, false
			}
			groups = append(groups, g)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), true
}
