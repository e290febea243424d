package authn

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/utils/ptr"
)

// OIDC is one issuer of ID tokens, by flags
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens). Each field has the
// flag
// --oidc-... of its name. An AuthenticationConfiguration can say more.
type OIDC struct {
	IssuerURL      string
	ClientID       string
	CAFile         string // empty trusts the authorities of the host
	UsernameClaim  string // "sub" if empty
	UsernamePrefix string // empty: the issuer and "#", but for "email"; "-": none
	GroupsClaim    string
	GroupsPrefix   string
	SigningAlgs    []string // RS256 if empty
	RequiredClaims map[string]string
}

// given tells whether any flag was.
func (o *OIDC) given() bool {
	return o.IssuerURL != "" || o.ClientID != "" || o.CAFile != "" || o.UsernamePrefix != "" || o.GroupsClaim != "" ||
		o.GroupsPrefix != "" ||
		len(o.RequiredClaims) > 0 || (o.UsernameClaim != "" && o.UsernameClaim != "sub") ||
		(len(o.SigningAlgs) > 0 && !slices.Equal(o.SigningAlgs, []string{"RS256"}))
}

// configuration is what the flags mean as an AuthenticationConfiguration.
func (o *OIDC) configuration() (*apiserver.AuthenticationConfiguration, error) {
	if o.IssuerURL == "" || o.ClientID == "" {
		return nil, errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	claim, prefix := o.UsernameClaim, o.UsernamePrefix
	if claim == "" {
		claim = "sub"
	}
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = o.IssuerURL + "#"
	}
	jwt := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{URL: o.IssuerURL, Audiences: []string{o.ClientID}},
		ClaimMappings: apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Claim: claim, Prefix: ptr.To(prefix)}},
	}
	if o.GroupsClaim != "" {
		jwt.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: o.GroupsClaim,
			Prefix: ptr.To(o.GroupsPrefix)}
	}
	for _, name := range slices.Sorted(maps.Keys(o.RequiredClaims)) {
		jwt.ClaimValidationRules = append(jwt.ClaimValidationRules,
			apiserver.ClaimValidationRule{Claim: name, RequiredValue: o.RequiredClaims[name]})
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		jwt.Issuer.CertificateAuthority = string(pem)
	}
	return &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{jwt}}, nil
}
