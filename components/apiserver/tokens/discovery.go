package tokens

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

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
	configuration, keys []byte
}

// Discovery returns the documents. It fails when the issuer is not an https URL, or there is no https JWKSURI: the
// documents are then not to be served.
func (t *Tokens) Discovery() (*Discovery, error) {
	if err := checkURL(t.cfg.Issuers[0]); err != nil {
		return nil, fmt.Errorf("service-account-issuer: %w", err)
	}
	if err := checkURL(t.cfg.JWKSURI); err != nil {
		return nil, fmt.Errorf("service-account-jwks-uri: %w", err)
	}
	var algorithms []string
	for _, k := range t.keys {
		algorithms = append(algorithms, k.Algorithm)
	}
	slices.Sort(algorithms)
	configuration, err := json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{t.cfg.Issuers[0], t.cfg.JWKSURI, []string{"id_token"}, []string{"public"}, slices.Compact(algorithms)})
	if err != nil {
		return nil, err
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: t.keys})
	if err != nil {
		return nil, err
	}
	return &Discovery{configuration: configuration, keys: keys}, nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return err
	}
	if u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not an https URL without query and fragment, as OpenID discovery needs", s)
	}
	return nil
}

// ServeConfiguration answers ConfigurationPath.
func (d *Discovery) ServeConfiguration(w http.ResponseWriter, _ *http.Request) {
	serve(w, "application/json", d.configuration)
}

// ServeKeys answers KeysPath.
func (d *Discovery) ServeKeys(w http.ResponseWriter, _ *http.Request) {
	serve(w, "application/jwk-set+json", d.keys)
}

func serve(w http.ResponseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // the client is gone
}
