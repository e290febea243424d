package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/internal/join"
)

// DefaultTokenTTL is how long a bootstrap token is valid, as with kubeadm, if nothing else is said.
const DefaultTokenTTL = 24 * time.Hour

// NodeTokenGroup is the group of bootstrap tokens by which nodes join, kubeadm's.
const NodeTokenGroup = join.NodeGroup

// NoExpiry is the TTL of a token that is valid until it is deleted.
const NoExpiry time.Duration = -1

// TokenOptions describe a new bootstrap token. The zero value is one by which nodes join within a day.
type TokenOptions struct {
	// Token is the token itself; random if it is empty.
	Token string
	// TTL is how long it is valid: DefaultTokenTTL if 0, for ever if NoExpiry.
	TTL time.Duration
	// Usages are "signing" and "authentication"; both if empty.
	Usages []string
	// Groups that it authenticates as, beside system:bootstrappers: NodeTokenGroup if empty, and it has the usage.
	Groups []string
	// Description is for people.
	Description string
}

// Token is a bootstrap token of a cluster (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
// It is secret: it adds nodes.
type Token struct {
	ID          string    `json:"id"`
	Token       string    `json:"token"` // with its secret part
	Expires     time.Time `json:"expires,omitzero"`
	Usages      []string  `json:"usages"`
	Groups      []string  `json:"groups,omitempty"`
	Description string    `json:"description,omitempty"`
}

func tokenOf(t join.Token) Token {
	return Token{ID: t.ID, Token: t.String(), Expires: t.Expires, Usages: t.Usages, Groups: t.Groups,
		Description: t.Description}
}

// token is what the options describe, at a time.
func (o TokenOptions) token(now time.Time) (join.Token, error) {
	var t join.Token
	var err error
	if o.Token == "" {
		t, err = join.Generate()
	} else {
		t, err = join.Parse(o.Token)
	}
	if err != nil {
		return t, err
	}
	if o.TTL < 0 && o.TTL != NoExpiry {
		return t, fmt.Errorf("token %s: it can't be valid for %v", t.ID, o.TTL)
	}
	if o.TTL != NoExpiry {
		t.Expires = now.Add(cmp.Or(o.TTL, DefaultTokenTTL)).Truncate(time.Second)
	}
	t.Usages, t.Groups, t.Description = slices.Clone(o.Usages), slices.Clone(o.Groups), o.Description
	if len(t.Usages) == 0 {
		t.Usages = []string{"signing", "authentication"}
	}
	if len(t.Groups) == 0 && slices.Contains(t.Usages, "authentication") {
		t.Groups = []string{join.NodeGroup}
	}
	return t, t.Validate()
}

// CreateToken makes a bootstrap token. The first one makes what joining by it needs, too: the ConfigMap
// kube-public/cluster-info, which anyone may then read, and the rights of NodeTokenGroup.
func (c *Cluster) CreateToken(ctx context.Context, o TokenOptions) (Token, error) {
	t, err := o.token(c.now())
	if err != nil {
		return Token{}, fmt.Errorf("create token: %w", err)
	}
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return Token{}, err
	}
	if _, err := c.prepareJoining(ctx, client); err != nil {
		return Token{}, fmt.Errorf("create token: %w", err)
	}
	_, err = client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, t.Object(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return Token{}, fmt.Errorf("create token: there is a token %s; delete it first, or take other six characters",
			t.ID)
	}
	if err != nil {
		return Token{}, fmt.Errorf("create token: %w", err)
	}
	return tokenOf(t), nil
}

// now is the cluster's time.
func (c *Cluster) now() time.Time {
	if c.config.clock != nil {
		return c.config.clock.Now()
	}
	return time.Now()
}

// Tokens are the bootstrap tokens of a cluster, those that expired and are yet to be removed among them. Secrets that
// only look like tokens are left out.
func (c *Cluster) Tokens(ctx context.Context) ([]Token, error) {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return nil, err
	}
	secrets, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	tokens := []Token{}
	for i := range secrets.Items {
		if t, err := join.FromObject(&secrets.Items[i]); err == nil {
			tokens = append(tokens, tokenOf(t))
		}
	}
	slices.SortFunc(tokens, func(a, b Token) int { return strings.Compare(a.ID, b.ID) })
	return tokens, nil
}

// DeleteToken ends a bootstrap token, which may be given without its secret part. Nodes that joined by it stay.
func (c *Cluster) DeleteToken(ctx context.Context, token string) error {
	id, err := join.ParseID(token)
	if err != nil {
		return fmt.Errorf("delete token: %w", err)
	}
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	err = client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, join.SecretName(id), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("delete token: there is no token %s", id)
	}
	if err != nil {
		return fmt.Errorf("delete token %s: %w", id, err)
	}
	return nil
}

// authority is the certificate of the cluster's authority, in PEM.
func (c *Cluster) authority() ([]byte, error) {
	config := rest.CopyConfig(c.rest)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	return config.CAData, nil
}
