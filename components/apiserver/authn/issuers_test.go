package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/component-base/metrics/legacyregistry"

	"quintet.dev/quintet/internal/follow"
)

// issuer is an OpenID provider.
type issuer struct {
	*httptest.Server
	signer jose.Signer
	ca     string // PEM
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{}
	mux := http.NewServeMux()
	answer := func(path string, content func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(content())
		})
	}
	discovery := func() any { return map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"} }
	answer("/.well-known/openid-configuration", discovery)
	answer("/elsewhere", func() any {
		return map[string]string{"issuer": "https://issuer.example", "jwks_uri": i.URL + "/keys"}
	})
	answer("/keys", func() any {
		return jose.JSONWebKeySet{
			Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}}
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	i.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
	i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// token is one of this issuer for "api" and "jane" that lives for an hour, but for the claims given.
func (i *issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": i.URL, "aud": "api", "sub": "jane", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	token, err := jwt.Signed(i.signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// ready waits until the issuers have told their keys.
func ready(t *testing.T, c *Chain) {
	t.Helper()
	if err := c.issuers.now.Load().wait(context.Background(), c.clock); err != nil {
		t.Fatal(err)
	}
}

func TestOIDC(t *testing.T) {
	i := newIssuer(t)
	c, err := New(Config{Audiences: []string{"kubernetes"}, OIDC: OIDC{
		IssuerURL: i.URL, ClientID: "api", CAFile: write(t, "ca.crt", []byte(i.ca)), GroupsClaim: "groups",
		GroupsPrefix: "oidc:",
		SigningAlgs:  []string{"ES256"}, RequiredClaims: map[string]string{"team": "a"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ready(t, c)
	again := i.token(t, map[string]any{"team": "a"})
	for range 2 {
		response, ok, err := c.AuthenticateToken(context.Background(), again, nil)
		if err != nil || !ok || !slices.Equal(response.Audiences, []string{"kubernetes"}) {
			t.Errorf("a token that comes again: %+v, %v", response, err)
		}
	}
	if _, ok, _ := c.AuthenticateToken(context.Background(), again, []string{"vault"}); ok {
		t.Error("a token for another than this server")
	}
	for name, tt := range map[string]struct {
		claims map[string]any
		fails  string
	}{
		"good":          {map[string]any{"team": "a", "groups": []string{"x", "y"}}, ""},
		"other team":    {map[string]any{"team": "b"}, "team"},
		"no team":       {nil, "team"},
		"for another":   {map[string]any{"team": "a", "aud": "other"}, "expected audience"},
		"expired":       {map[string]any{"team": "a", "exp": 1}, "expired"},
		"other issuer":  {map[string]any{"team": "a", "iss": "https://other"}, "invalid bearer token"},
		"without a sub": {map[string]any{"team": "a", "sub": nil}, "sub"},
	} {
		response, ok, err := c.AuthenticateToken(context.Background(), i.token(t, tt.claims), nil)
		if tt.fails != "" {
			if ok || err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%s: got %v, %v", name, ok, err)
			}
			continue
		}
		if err != nil || !ok || response.User.GetName() != i.URL+"#jane" ||
			!slices.Equal(response.User.GetGroups(), []string{"oidc:x", "oidc:y", "system:authenticated"}) {
			t.Errorf("%s: got %+v, %v", name, response, err)
		}
	}
}

const configHeader = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"

// jwtConfig is an entry for an issuer, with mappings as given.
func jwtConfig(url, ca, more string) string {
	ca, _ = strings.CutSuffix(ca, "\n")
	return fmt.Sprintf("- issuer:\n    url: %s\n    audiences: [api]\n    certificateAuthority: |\n      %s\n%s", url,
		strings.ReplaceAll(ca, "\n", "\n      "), more)
}

func TestConfigFile(t *testing.T) {
	plain, cel := newIssuer(t), newIssuer(t)
	content := configHeader + "anonymous: {enabled: true, conditions: [{path: /livez}]}\njwt:\n" +
		jwtConfig(plain.URL, plain.ca, "  claimMappings: {username: {claim: sub, prefix: 'p:'}}\n") +
		jwtConfig("https://issuer.example", cel.ca, `    discoveryURL: `+cel.URL+`/elsewhere
  claimValidationRules: [{expression: 'claims.level >= 3', message: 'a level of three is needed'}]
  claimMappings:
    username: {expression: '"cel:" + claims.sub'}
    groups: {expression: 'claims.roles'}
    uid: {claim: id}
    extra: [{key: example.org/tenant, valueExpression: claims.tenant}]
  userValidationRules: [{expression: '!user.username.startsWith("cel:system")', message: 'no system users'}]
`)
	c, err := New(Config{ConfigFile: write(t, "config.yaml", []byte(content))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ready(t, c)
	mapped := func(sub string, level int) string {
		return cel.token(t, map[string]any{"iss": "https://issuer.example", "sub": sub, "level": level,
			"roles": []string{"a", "b"}, "id": "7", "tenant": "t"})
	}
	response, ok, err := c.AuthenticateToken(context.Background(), plain.token(t, nil), nil)
	if err != nil || !ok || response.User.GetName() != "p:jane" {
		t.Errorf("by claims: %+v, %v", response, err)
	}
	response, ok, err = c.AuthenticateToken(context.Background(), mapped("joe", 3), nil)
	if err != nil || !ok || response.User.GetName() != "cel:joe" || response.User.GetUID() != "7" ||
		response.User.GetExtra()["example.org/tenant"][0] != "t" ||
		!slices.Equal(response.User.GetGroups(), []string{"a", "b", "system:authenticated"}) {
		t.Errorf("by expressions: %+v, %v", response, err)
	}
	if _, ok, err := c.AuthenticateToken(context.Background(), mapped("joe", 1), nil); ok || err == nil ||
		!strings.Contains(err.Error(), "a level of three is needed") {
		t.Errorf("a claim that isn't valid: %v", err)
	}
	if _, ok, err := c.AuthenticateToken(context.Background(), mapped("system:x", 3), nil); ok || err == nil ||
		!strings.Contains(err.Error(), "no system users") {
		t.Errorf("a user that isn't valid: %v", err)
	}
	if _, ok, _ := c.AuthenticateToken(context.Background(), " ", nil); ok {
		t.Error("a review of no token passed for anonymous")
	}
	for path, want := range map[string]bool{"/livez": true, "/api": false} {
		if _, ok, _ := c.AuthenticateRequest(httptest.NewRequest("GET", path, nil)); ok != want {
			t.Errorf("nobody at %s: %v", path, ok)
		}
	}
}

func TestConfigReload(t *testing.T) {
	first, second := newIssuer(t), newIssuer(t)
	config := func(i *issuer) []byte {
		return []byte(configHeader + "jwt:\n" +
			jwtConfig(i.URL, i.ca, "  claimMappings: {username: {claim: sub, prefix: ''}}\n"))
	}
	c, err := New(Config{ConfigFile: write(t, "config.yaml", config(first))})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	try := func(i *issuer) bool {
		_, ok, _ := c.AuthenticateToken(context.Background(), i.token(t, nil), nil)
		return ok
	}
	replace := func(ctx context.Context, content []byte) error {
		config, err := decodeConfig(content)
		if err != nil {
			return err
		}
		return c.issuers.replace(ctx, config)
	}
	ready(t, c)
	if !try(first) || try(second) {
		t.Fatal("before the change")
	}
	if err := replace(context.Background(), config(second)); err != nil || !try(second) {
		t.Fatalf("after the change: %v", err)
	}
	if try(first) {
		t.Error("the first issuer is still trusted")
	}
	if counted(t, first) || !counted(t, second) {
		t.Error("keys are counted of the first issuer, or not of the second")
	}
	gone := newIssuer(t)
	gone.Close()
	asked, cancel := context.WithCancel(context.Background())
	cancel() // no request waits for the issuer
	if err := replace(asked, config(gone)); err == nil || follow.IsPermanent(err) || !try(second) {
		t.Errorf("after naming an issuer that doesn't answer: %v", err)
	}
	for _, content := range []string{configHeader + "jwt: [{}]\n", configHeader + "anonymous: {enabled: false}\n"} {
		if err := replace(context.Background(), []byte(content)); !follow.IsPermanent(err) || !try(second) {
			t.Errorf("after %q: %v", content, err)
		}
	}
}

// counted tells whether metrics speak of an issuer's keys.
func counted(t *testing.T, i *issuer) bool {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	of := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(i.URL)))
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if f.GetName() == "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds" &&
					l.GetValue() == of {
					return true
				}
			}
		}
	}
	return false
}

// TestConfigErrors: each error names flag, file and cause.
func TestConfigErrors(t *testing.T) {
	entry := func(issuer, mapping string) string {
		return configHeader + "jwt: [{issuer: {" + issuer + "}, claimMappings: {username: {" + mapping + "}}}]"
	}
	const claim = "claim: sub, prefix: ''"
	for name, tt := range map[string]struct {
		content string
		change  func(*Config)
		want    string
	}{
		"empty":   {"", nil, "empty config data"},
		"no YAML": {"x: [", nil, "yaml: line 1"},
		"other kind": {"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n", nil,
			"expected AuthenticationConfiguration, got *apiserver.AuthorizationConfiguration"},
		"unknown kind":  {"apiVersion: v1\nkind: Foo\n", nil, `no kind "Foo" is registered`},
		"unknown field": {configHeader + "foo: 1\n", nil, `strict decoding error: unknown field "foo"`},
		"nothing said":  {configHeader + "jwt: [{}]", nil, "jwt[0].issuer.url: Required value"},
		"http": {entry("url: http://a, audiences: [x]", claim), nil,
			`jwt[0].issuer.url: Invalid value: "http://a": URL scheme must be https`},
		"CA": {entry("url: https://a, audiences: [x], certificateAuthority: foo", claim), nil,
			"data does not contain any valid RSA or ECDSA certificates"},
		"CEL": {entry("url: https://a, audiences: [x]", "expression: claims."), nil,
			"claimMappings.username.expression: Invalid value"},
		"accounts": {entry("url: https://accounts, audiences: [x]", claim), nil,
			"URL must not overlap with disallowed issuers: [https://accounts]"},
		"egress": {entry("url: https://a, audiences: [x], egressSelectorType: cluster", claim), nil,
			`egress lookup required with egress selector type "cluster"`},
		"with OIDC": {entry("url: https://a, audiences: [x]", claim), func(c *Config) { c.OIDC.ClientID = "x" },
			"authentication-config file and oidc-* flags are mutually exclusive"},
		"with defaults": {entry("url: https://a, audiences: [x]", claim), func(c *Config) { c.OIDCGiven = true },
			"authentication-config file and oidc-* flags are mutually exclusive"},
		"with anonymous": {configHeader + "anonymous: {enabled: true}", func(c *Config) { c.AnonymousGiven = true },
			"--anonymous-auth flag cannot be set when anonymous field is configured"},
		"conditions": {configHeader + "anonymous: {enabled: false, conditions: [{path: /x}]}", nil,
			"anonymous.conditions: Invalid value"},
	} {
		file := write(t, "config.yaml", []byte(tt.content))
		cfg := Config{ConfigFile: file, ServiceAccountIssuers: []string{"https://accounts"}}
		if tt.change != nil {
			tt.change(&cfg)
		} else {
			tt.want = "--authentication-config " + file + ": \x00" + tt.want
		}
		_, err := New(cfg)
		for want := range strings.SplitSeq(tt.want, "\x00") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", name, err, want)
			}
		}
	}
	for name, tt := range map[string]struct {
		oidc OIDC
		want string
	}{
		"no issuer": {OIDC{ClientID: "x"}, "oidc-issuer-url and oidc-client-id must be specified together"},
		"no client": {OIDC{IssuerURL: "https://a"},
			"oidc-issuer-url and oidc-client-id must be specified together"},
		"http": {OIDC{IssuerURL: "http://a", ClientID: "x"}, "URL scheme must be https"},
		"algorithm": {OIDC{IssuerURL: "https://a", ClientID: "x", SigningAlgs: []string{"none"}},
			`unsupported signing alg: "none"`},
		"CA":            {OIDC{IssuerURL: "https://a", ClientID: "x", CAFile: "/none"}, "--oidc-ca-file: open /none"},
		"missing files": {OIDC{}, "--authentication-config /none: open /none"},
	} {
		cfg := Config{OIDC: tt.oidc}
		if !tt.oidc.given() {
			cfg.ConfigFile = "/none"
		}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, tt.want)
		}
	}
}

func FuzzDecodeConfig(f *testing.F) {
	f.Add([]byte(configHeader))
	f.Add([]byte(configHeader +
		"jwt: [{issuer: {url: https://a, audiences: [x]}, claimMappings: {username: {claim: sub, prefix: ''}}}]"))
	f.Add([]byte(configHeader + "anonymous: {enabled: true, conditions: [{path: /x}]}"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, content []byte) {
		config, err := decodeConfig(content)
		if (config == nil) == (err == nil) {
			t.Errorf("got %v, %v", config, err)
		}
		if config != nil && len(config.JWT) == 0 {
			_ = checkConfig(config, nil, nil)
		}
	})
}
