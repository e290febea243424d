// Package tokens signs and verifies service account tokens
// (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens).
package tokens

import (
	"crypto"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Config is what Tokens are made of.
type Config struct {
	// Issuers are the values of the claim "iss" that are accepted; the first is put into new tokens.
	Issuers []string
	// Remote signs new tokens, in the place of Signer and Keys. SetRemoteKeys is to be called before tokens are
	// verified.
	Remote Remote
	// Signer signs new tokens; nil makes TokenRequests fail.
	Signer crypto.Signer
	// Keys verify tokens, besides Signer's own.
	Keys []crypto.PublicKey
	// Audiences are this API server's; tokens that name none get them. Empty means Issuers.
	Audiences []string
	// MaxExpiration shortens what is asked for; 0 means no limit.
	MaxExpiration time.Duration
	// ExtendedLife is how long those tokens live that ExtendExpiration is about; 0 means a year.
	ExtendedLife time.Duration
	// ExtendExpiration lets the tokens that pods get by default live for a year, for clients that don't read the file
	// again. The kubelet renews it hourly all the same.
	ExtendExpiration bool
	// AnyUID lets requests for tokens name another UID than that of the service account, which is then noted in the
	// audit and warned of.
	AnyUID bool
	// NoLookup accepts tokens in Secrets without looking whether the Secret still holds them.
	NoLookup bool
	// JWKSURI is where the keys can be read, for the discovery document.
	JWKSURI string
	Objects objects.Store
	Clock   clock.PassiveClock
	// Used is told of uses of tokens; nil counts nothing.
	Used func(Use)
}

// Tokens signs and verifies. It is safe for concurrent use.
type Tokens struct {
	cfg  Config
	ring atomic.Pointer[keyring]
}

// New returns Tokens.
func New(cfg Config) (*Tokens, error) {
	if cfg.Used == nil {
		cfg.Used = func(Use) {}
	}
	if len(cfg.Issuers) == 0 || cfg.Issuers[0] == "" {
		return nil, errors.New("service-account-issuer is a required flag")
	}
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = cfg.Issuers
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.ExtendedLife == 0 {
		cfg.ExtendedLife = extendedLife
	}
	t := &Tokens{cfg: cfg}
	if cfg.Remote != nil {
		return t, nil
	}
	if err := t.SetKeys(cfg.Signer, cfg.Keys); err != nil {
		return nil, err
	}
	return t, nil
}

// SetKeys replaces all keys; those in use stay if it fails. Tokens of keys that are not among them are no longer good.
func (t *Tokens) SetKeys(signer crypto.Signer, keys []crypto.PublicKey) error {
	ring, err := newKeyring(signer, keys)
	if err != nil {
		return err
	}
	t.ring.Store(ring)
	return nil
}

// Issuers and Audiences tell what is configured, with defaults filled in.
func (t *Tokens) Issuers() []string   { return t.cfg.Issuers }
func (t *Tokens) Audiences() []string { return t.cfg.Audiences }
