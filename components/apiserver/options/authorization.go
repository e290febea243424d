package options

import (
	"strings"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/components/apiserver/authz"
)

func (c *Config) addAuthorizationFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.AuthorizationModes, "authorization-mode", nil, "Authorizers, in their order: "+
		strings.Join(authz.Modes(), ", ")+
		". By default AlwaysAllow, unless --authorization-config is given.")
	fs.StringVar(&c.AuthorizationConfigFile, "authorization-config", "",
		"AuthorizationConfiguration: authorizers and webhooks. Excludes --authorization-mode and "+
			"--authorization-webhook-*.")
	fs.StringVar(&c.AuthorizationPolicyFile, "authorization-policy-file", "",
		"Policies, one of JSON on each line, with --authorization-mode=ABAC.")
	w := &c.AuthorizationWebhook
	*w = authz.DefaultWebhook()
	fs.StringVar(&w.ConfigFile, "authorization-webhook-config-file", "",
		"Kubeconfig of a remote service that is asked, with --authorization-mode=Webhook.")
	fs.StringVar(&w.Version, "authorization-webhook-version", w.Version,
		"Version of the SubjectAccessReviews that it is sent.")
	fs.DurationVar(&w.CacheAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", w.CacheAuthorizedTTL,
		"How long it is remembered what it allows.")
	fs.DurationVar(&w.CacheUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", w.CacheUnauthorizedTTL,
		"How long it is remembered what it doesn't allow.")
	noteGiven(fs, "authorization-webhook-", &c.AuthorizationWebhookGiven)
}
