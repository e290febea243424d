// Package join is what a cluster and a node that joins it by a bootstrap token agree on: the token, the signed
// ConfigMap by which the node trusts the cluster, and the configuration that it gets there. All of it is pure.
package join

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cluster-bootstrap/token/api"
	tokenutil "k8s.io/cluster-bootstrap/token/util"
	"k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/cluster-bootstrap/util/tokens"
)

// NodeGroup is kubeadm's group of tokens by which nodes join.
const NodeGroup = "system:bootstrappers:kubeadm:default-node-token"

// Token is a bootstrap token (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
type Token struct {
	ID, Secret  string
	Expires     time.Time // zero is never
	Usages      []string  // "signing", "authentication"
	Groups      []string  // beside system:bootstrappers
	Description string
}

// String is the token as clients send it. It is secret.
func (t Token) String() string { return tokenutil.TokenFromIDAndSecret(t.ID, t.Secret) }

// Parse reads the identity and the secret of a token.
func Parse(text string) (Token, error) {
	id, secret, err := tokens.ParseToken(text)
	if err != nil {
		return Token{}, fmt.Errorf("token %q: want six and sixteen lower-case letters and digits, as in "+
			"abcdef.0123456789abcdef", redacted(text))
	}
	return Token{ID: id, Secret: secret}, nil
}

// ParseID reads the identity of a token, which may be given with or without its secret.
func ParseID(text string) (string, error) {
	if tokenutil.IsValidBootstrapTokenID(text) {
		return text, nil
	}
	t, err := Parse(text)
	if err != nil {
		return "", fmt.Errorf("%w, or its first six characters", err)
	}
	return t.ID, nil
}

// redacted leaves the secret of what was meant to be a token out of messages.
func redacted(text string) string {
	id, _, dotted := strings.Cut(text, ".")
	if dotted {
		return id + ".…"
	}
	return id
}

// Generate makes the identity and the secret of a new token.
func Generate() (Token, error) {
	text, err := tokenutil.GenerateBootstrapToken()
	if err != nil {
		return Token{}, err
	}
	return Parse(text)
}

// Validate checks usages and groups.
func (t Token) Validate() error {
	if len(t.Usages) == 0 {
		return fmt.Errorf("token %s: give at least one usage: %s", t.ID, strings.Join(api.KnownTokenUsages, ", "))
	}
	if err := tokenutil.ValidateUsages(t.Usages); err != nil {
		return fmt.Errorf("token %s: %w", t.ID, err)
	}
	if len(t.Groups) > 0 && !slices.Contains(t.Usages, "authentication") {
		return fmt.Errorf("token %s: only tokens with the usage authentication have groups", t.ID)
	}
	for _, group := range t.Groups {
		if err := tokenutil.ValidateBootstrapGroupName(group); err != nil {
			return fmt.Errorf("token %s: %w", t.ID, err)
		}
	}
	return nil
}

// SecretName is the name of the Secret of a token, in kube-system.
func SecretName(id string) string { return tokenutil.BootstrapTokenSecretName(id) }

// Object is the Secret that makes the token valid.
func (t Token) Object() *corev1.Secret {
	data := map[string][]byte{
		api.BootstrapTokenIDKey: []byte(t.ID), api.BootstrapTokenSecretKey: []byte(t.Secret),
	}
	for _, usage := range t.Usages {
		data[api.BootstrapTokenUsagePrefix+usage] = []byte("true")
	}
	if !t.Expires.IsZero() {
		data[api.BootstrapTokenExpirationKey] = []byte(t.Expires.UTC().Format(time.RFC3339))
	}
	if len(t.Groups) > 0 {
		data[api.BootstrapTokenExtraGroupsKey] = []byte(strings.Join(t.Groups, ","))
	}
	if t.Description != "" {
		data[api.BootstrapTokenDescriptionKey] = []byte(t.Description)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: SecretName(t.ID)},
		Type:       corev1.SecretTypeBootstrapToken, Data: data,
	}
}

// FromObject reads the token of a Secret.
func FromObject(s *corev1.Secret) (Token, error) {
	data := func(key string) string { return secrets.GetData(s, key) }
	t, err := Parse(tokenutil.TokenFromIDAndSecret(data(api.BootstrapTokenIDKey), data(api.BootstrapTokenSecretKey)))
	if err != nil {
		return Token{}, fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	if s.Name != SecretName(t.ID) {
		return Token{}, fmt.Errorf("secret %s/%s is of the token %s, which would be called %s", s.Namespace, s.Name,
			t.ID, SecretName(t.ID))
	}
	if at := data(api.BootstrapTokenExpirationKey); at != "" {
		if t.Expires, err = time.Parse(time.RFC3339, at); err != nil {
			return Token{}, fmt.Errorf("secret %s/%s: expiration: %w", s.Namespace, s.Name, err)
		}
	}
	for _, usage := range api.KnownTokenUsages {
		if data(api.BootstrapTokenUsagePrefix+usage) == "true" {
			t.Usages = append(t.Usages, usage)
		}
	}
	if groups := data(api.BootstrapTokenExtraGroupsKey); groups != "" {
		t.Groups = strings.Split(groups, ",")
	}
	t.Description = data(api.BootstrapTokenDescriptionKey)
	return t, nil
}
