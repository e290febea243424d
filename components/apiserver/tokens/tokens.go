// Package tokens signs and verifies service account tokens
// (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens).
package tokens

import (
	"crypto"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Config is what Tokens are made of.
type Config struct {
	// Issuers are the values of the claim "iss" that are accepted; the first is put into new tokens.
	Issuers []string
	// Signer signs new tokens; nil makes TokenRequests fail.
	Signer crypto.Signer
	// Keys verify tokens, besides Signer's own.
	Keys []crypto.PublicKey
	// Audiences are this API server's; tokens that name none get them. Empty means Issuers.
	Audiences []string
	// MaxExpiration shortens what is asked for; 0 means no limit.
	MaxExpiration time.Duration
	// ExtendExpiration lets the tokens that pods get by default live for a year, for clients that don't read the file
	// again. The kubelet renews it hourly all the same.
	ExtendExpiration bool
	// JWKSURI is where the keys can be read, for the discovery document.
	JWKSURI string
	Objects objects.Reader
	Clock   clock.PassiveClock
}

// Tokens signs and verifies. It is safe for concurrent use.
type Tokens struct {
	cfg    Config
	signer jose.Signer
	keys   []jose.JSONWebKey // public
	// verified remembers the claims of tokens whose signature was right, by hash of the token. What the claims say is
	// checked on every use.
	verified *lru.Cache
}

// rememberedTokens bounds how many verified tokens are kept in memory (some 600 bytes each).
const rememberedTokens = 4096

// New returns Tokens.
func New(cfg Config) (*Tokens, error) {
	if len(cfg.Issuers) == 0 || cfg.Issuers[0] == "" {
		return nil, errors.New("service-account-issuer is a required flag")
	}
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = cfg.Issuers
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	t := &Tokens{cfg: cfg, verified: lru.New(rememberedTokens)}
	if cfg.Signer != nil {
		key, err := publicKey(cfg.Signer.Public())
		if err != nil {
			return nil, fmt.Errorf("service-account-signing-key-file: %w", err)
		}
		t.keys = append(t.keys, key)
		t.signer, err = jose.NewSigner(jose.SigningKey{
			Algorithm: jose.SignatureAlgorithm(key.Algorithm),
			Key:       jose.JSONWebKey{Key: cfg.Signer, KeyID: key.KeyID, Algorithm: key.Algorithm},
		}, nil)
		if err != nil {
			return nil, fmt.Errorf("service-account-signing-key-file: %w", err)
		}
	}
	for _, k := range cfg.Keys {
		key, err := publicKey(k)
		if err != nil {
			return nil, fmt.Errorf("service-account-key-file: %w", err)
		}
		if len(t.keys) == 0 || t.keys[0].KeyID != key.KeyID {
			t.keys = append(t.keys, key)
		}
	}
	if len(t.keys) == 0 {
		return nil, errors.New("service-account-key-file: no key to verify service account tokens with")
	}
	return t, nil
}

// Issuers and Audiences tell what is configured, with defaults filled in.
func (t *Tokens) Issuers() []string   { return t.cfg.Issuers }
func (t *Tokens) Audiences() []string { return t.cfg.Audiences }
