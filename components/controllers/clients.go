package controllers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/internal/kubeconfig"
)

// program is what the managed fields of all controllers name.
const program = "kube-controller-manager"

// tokenSeconds is how long a controller's token is good for; it is renewed before that.
const tokenSeconds = 3600

// clients makes a client for each controller: with the manager's identity or with that of a service account.
type clients struct {
	root       *rest.Config
	client     *kubernetes.Clientset // of the manager itself
	tokens     kubernetes.Interface  // the same for tokens, which every controller waits for
	clock      clock.PassiveClock    // by which tokens expire
	perAccount bool
	measure    transport.WrapperFunc // counts requests; root has it
}

func newClients(root *rest.Config, measure transport.WrapperFunc, clock clock.PassiveClock,
	perAccount bool) (*clients, error) {
	client, err := kubernetes.NewForConfig(kubeconfig.AddUserAgent(rest.CopyConfig(root), program, program))
	if err != nil {
		return nil, err
	}
	unlimited := kubeconfig.AddUserAgent(rest.CopyConfig(root), program, "tokens")
	unlimited.QPS = -1 // there are as many requests as controllers
	tokens, err := kubernetes.NewForConfig(unlimited)
	if err != nil {
		return nil, err
	}
	return &clients{root: root, client: client, tokens: tokens, clock: clock, perAccount: perAccount,
		measure: measure}, nil
}

// config returns the client configuration with the identity of the service account.
func (c *clients) config(account string) *rest.Config {
	if !c.perAccount {
		return kubeconfig.AddUserAgent(rest.CopyConfig(c.root), program, account)
	}
	config := rest.AnonymousClientConfig(c.root)
	config.QPS, config.Burst = c.root.QPS, c.root.Burst
	tokens := &keptTokens{source: &tokenSource{client: c.tokens, account: account}, clock: c.clock}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport.ResettableTokenSourceWrapTransport(tokens)(next)
	})
	config.Wrap(c.measure)
	return kubeconfig.AddUserAgent(config, program, account)
}

// tokenSource requests tokens of a service account in kube-system, which it creates if it is missing.
type tokenSource struct {
	client  kubernetes.Interface
	account string
}

// Token returns a new token. It has no context to end by, and ends by time instead.
func (s *tokenSource) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.ensureAccount(ctx); err != nil {
		return nil, fmt.Errorf("service account %s/%s: %w", metav1.NamespaceSystem, s.account, err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](
		tokenSeconds)}}
	answer, err := s.client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, s.account, request,
		metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", metav1.NamespaceSystem, s.account, err)
	}
	return &oauth2.Token{AccessToken: answer.Status.Token, TokenType: "Bearer",
		Expiry: answer.Status.ExpirationTimestamp.Time}, nil
}

func (s *tokenSource) ensureAccount(ctx context.Context) error {
	accounts := s.client.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	_, err := accounts.Get(ctx, s.account, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: s.account}}
	_, err = accounts.Create(ctx, account, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) { // so early that not even the namespace is there
		namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
		if _, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err = accounts.Create(ctx, account, metav1.CreateOptions{})
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
