// Package delegated delegates authentication and authorization of a program's endpoints to the API server: by
// TokenReviews, SubjectAccessReviews and the published authorities of client certificates
// (https://kubernetes.io/docs/tasks/extend-kubernetes/setup-extension-api-server/).
package delegated

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// Options have upstream's flags. The zero value trusts no client and exempts no path; Default holds the defaults of
// programs.
type Options struct {
	// AuthenticationKubeconfig is used for TokenReviews and the published authorities, AuthorizationKubeconfig for
	// SubjectAccessReviews. Empty uses the in-cluster config; without one, every request is anonymous and unauthorized.
	AuthenticationKubeconfig, AuthorizationKubeconfig string
	// SkipLookup does not read the authorities that the API server publishes; TolerateLookupFailure continues
	// without them.
	SkipLookup, TolerateLookupFailure bool
	// ClientCAFile has the authorities of client certificates, instead of those that are published.
	ClientCAFile string
	// RequestHeader configures the authenticating proxy, instead of the published configuration.
	RequestHeader RequestHeader
	// TokenTTL, AllowTTL and DenyTTL are how long answers are remembered.
	TokenTTL, AllowTTL, DenyTTL time.Duration
	// AlwaysAllowPaths are open to all, and what is under them if they end with "*".
	AlwaysAllowPaths []string
}

// RequestHeader describes an authenticating proxy. Without ClientCAFile the rest has no effect, as upstream has it.
type RequestHeader struct {
	ClientCAFile                                                                 string
	AllowedNames, UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeaderPrefixes []string
}

const remember = 10 * time.Second

// Default is what upstream's programs begin with.
func Default() Options {
	return Options{
		TokenTTL: remember, AllowTTL: remember, DenyTTL: remember,
		AlwaysAllowPaths: []string{"/healthz", "/readyz", "/livez"},
		RequestHeader: RequestHeader{
			UsernameHeaders: []string{"x-remote-user"}, GroupHeaders: []string{"x-remote-group"},
			ExtraHeaderPrefixes: []string{"x-remote-extra-"},
		},
	}
}

// AddFlags binds upstream's flags; what o holds is their default.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.AuthenticationKubeconfig, "authentication-kubeconfig", o.AuthenticationKubeconfig,
		"Kubeconfig file of the API server that reviews tokens and publishes authorities; without one all requests are "+
			"anonymous.")
	fs.BoolVar(&o.SkipLookup, "authentication-skip-lookup", o.SkipLookup, "Don't look for authorities in the cluster.")
	fs.BoolVar(&o.TolerateLookupFailure, "authentication-tolerate-lookup-failure", o.TolerateLookupFailure,
		"Start without the authorities that can't be looked up.")
	fs.DurationVar(&o.TokenTTL, "authentication-token-webhook-cache-ttl", o.TokenTTL,
		"How long the review of a token is remembered.")
	fs.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile,
		"Authorities of client certificates, instead of the cluster's.")
	r := &o.RequestHeader
	fs.StringVar(&r.ClientCAFile, "requestheader-client-ca-file", r.ClientCAFile,
		"Authorities of proxies that say in headers who their user is, instead of the cluster's.")
	fs.StringSliceVar(&r.AllowedNames, "requestheader-allowed-names", r.AllowedNames,
		"Common names of such proxies; empty allows all that the authority signed.")
	fs.StringSliceVar(&r.UsernameHeaders, "requestheader-username-headers", r.UsernameHeaders,
		"Headers with the user's name.")
	fs.StringSliceVar(&r.UIDHeaders, "requestheader-uid-headers", r.UIDHeaders, "Headers with the user's UID.")
	fs.StringSliceVar(&r.GroupHeaders, "requestheader-group-headers", r.GroupHeaders, "Headers with the user's groups.")
	fs.StringSliceVar(&r.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", r.ExtraHeaderPrefixes,
		"Prefixes of headers with more about the user.")
	fs.StringVar(&o.AuthorizationKubeconfig, "authorization-kubeconfig", o.AuthorizationKubeconfig,
		"Kubeconfig file of the API server that decides about access; without one all is forbidden that isn't open to all.")
	fs.DurationVar(&o.AllowTTL, "authorization-webhook-cache-authorized-ttl", o.AllowTTL,
		"How long it is remembered that access was granted.")
	fs.DurationVar(&o.DenyTTL, "authorization-webhook-cache-unauthorized-ttl", o.DenyTTL,
		"How long it is remembered that access was not granted.")
	fs.StringSliceVar(&o.AlwaysAllowPaths, "authorization-always-allow-paths", o.AlwaysAllowPaths,
		"Paths that are open to all; a * at the end opens what is under them.")
}

// Validate names the flag that can't be.
func (o *Options) Validate() error {
	var errs []error
	for flag, file := range map[string]string{"authentication-kubeconfig": o.AuthenticationKubeconfig,
		"authorization-kubeconfig": o.AuthorizationKubeconfig} {
		if file == "" {
			continue
		}
		if _, err := clientcmd.LoadFromFile(file); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	r := &o.RequestHeader
	for _, f := range []struct {
		flag   string
		values []string
	}{
		{"requestheader-username-headers", r.UsernameHeaders}, {"requestheader-uid-headers", r.UIDHeaders},
		{"requestheader-group-headers", r.GroupHeaders}, {"requestheader-extra-headers-prefix", r.ExtraHeaderPrefixes},
		{"requestheader-allowed-names", r.AllowedNames},
	} {
		if slices.ContainsFunc(f.values, func(value string) bool { return strings.TrimSpace(value) == "" }) {
			errs = append(errs, fmt.Errorf("empty value in %q", f.flag))
		}
	}
	if len(r.UIDHeaders) > 0 &&
		!slices.ContainsFunc(r.UIDHeaders, func(h string) bool { return strings.EqualFold(h, "X-Remote-Uid") }) {
		errs = append(errs,
			errors.New("--requestheader-uid-headers is set without the standard X-Remote-Uid header: API aggregation will not "+
				"work"))
	}
	return errors.Join(errs...)
}
