package authn

import (
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"

	"quintet.dev/quintet/components/apiserver/egress"
)

// TokenWebhook asks a remote service about tokens
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication). Each field
// has the flag --authentication-token-webhook-... of its name.
type TokenWebhook struct {
	ConfigFile string // a kubeconfig
	Version    string // of the TokenReviews sent; "v1beta1" if empty, as upstream
	// CacheTTL is for how long answers are remembered; 0 remembers none.
	CacheTTL time.Duration
}

func (w *TokenWebhook) authenticator(audiences []string, dial egress.Dial) (authenticator.Token, error) {
	version := w.Version
	if version == "" {
		version = "v1beta1"
	}
	fail := func(err error) (authenticator.Token, error) {
		return nil, fmt.Errorf("--authentication-token-webhook-config-file %s: %w", w.ConfigFile, err)
	}
	config, err := webhookutil.LoadKubeconfig(w.ConfigFile, nil)
	if err != nil {
		return fail(err)
	}
	config.Dial = dial
	remote, err := webhook.New(config, version, audiences, *webhook.DefaultRetryBackoff())
	if err != nil {
		return fail(err)
	}
	return cache.New(remote, false, w.CacheTTL, w.CacheTTL), nil
}
