package tokens

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Paths at which issuer discovery is served.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// Discovery lets others verify tokens
// (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery).
type Discovery struct {
	tokens *Tokens
}

// Discovery returns what serves the documents. It fails when the issuer or JWKSURI are no https URLs, or the issuer has
// what OpenID forbids: the documents are then not to be served.
func (t *Tokens) Discovery() (*Discovery, error) {
	issuer, err := checkURL(t.cfg.Issuers[0])
	if err == nil && (issuer.RawQuery != "" || issuer.Fragment != "") {
		err = fmt.Errorf("%q has a query or a fragment, which OpenID discovery has no place for", issuer)
	}
	if err != nil {
		return nil, fmt.Errorf("service-account-issuer: %w", err)
	}
	if _, err := checkURL(t.cfg.JWKSURI); err != nil {
		return nil, fmt.Errorf("service-account-jwks-uri: %w", err)
	}
	return &Discovery{t}, nil
}

// checkURL is content with a URL without host, as upstream.
func checkURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err == nil && u.Scheme != "https" {
		err = fmt.Errorf("%q is no https URL, as OpenID discovery needs", s)
	}
	return u, err
}

// ServeConfiguration answers ConfigurationPath.
func (d *Discovery) ServeConfiguration(w http.ResponseWriter, _ *http.Request) {
	var algorithms []string
	for _, k := range d.tokens.ring.Load().told {
		algorithms = append(algorithms, k.Algorithm)
	}
	slices.Sort(algorithms)
	d.serve(w, "application/json", struct {
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{d.tokens.cfg.Issuers[0], d.tokens.cfg.JWKSURI, []string{"id_token"}, []string{"public"},
		slices.Compact(algorithms)})
}

// ServeKeys answers KeysPath.
func (d *Discovery) ServeKeys(w http.ResponseWriter, _ *http.Request) {
	d.serve(w, "application/jwk-set+json", jose.JSONWebKeySet{Keys: d.tokens.ring.Load().told})
}

// fresh is how long the documents may be cached, unless an external signer holds the keys.
const fresh = time.Hour

func (d *Discovery) serve(w http.ResponseWriter, contentType string, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	age := fresh
	if d.tokens.cfg.Remote != nil {
		age = d.tokens.cfg.Remote.Fresh()
	}
	h.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(age.Seconds())))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // the client is gone
}
