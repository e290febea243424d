package apiserver

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"time"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/tokens"
	"quintet.dev/quintet/components/apiserver/tokens/external"
	"quintet.dev/quintet/internal/follow"
)

// accountTokens sign and verify the tokens of service accounts.
type accountTokens struct {
	*tokens.Tokens
	files  *follow.Files    // of keys; none with a signer
	signer *external.Signer // in another process; nil without
}

// newTokens makes tokens whose keys follow their files, or those of an external signer.
func newTokens(b *base, r *kindRegistry, undo *cleanup) (*accountTokens, error) {
	c := &b.config
	config := tokens.Config{
		Issuers: c.ServiceAccountIssuers, Audiences: c.APIAudiences,
		MaxExpiration:    c.ServiceAccountMaxTokenExpiration,
		ExtendExpiration: !c.NoTokenExtension, NoLookup: c.NoTokenLookup,
		AnyUID:  !b.gates.On(gates.TokenRequestServiceAccountUIDValidation),
		JWKSURI: cmp.Or(c.ServiceAccountJWKSURI, "https://"+b.addresses.endpoint+tokens.KeysPath),
		Objects: r.Local, Clock: c.Clock,
		Used: metrics.Counters(b.registry, "serviceaccount_", "Uses of tokens of service accounts.", tokens.Uses()),
	}
	if c.ServiceAccountSigningEndpoint != "" {
		return newRemoteTokens(b, config, undo)
	}
	return newLocalTokens(b, config)
}

// newLocalTokens makes tokens that this process signs.
func newLocalTokens(b *base, config tokens.Config) (*accountTokens, error) {
	fail := func(err error) error {
		return fmt.Errorf("--service-account-signing-key-file, --service-account-key-file: %w", err)
	}
	keys := keyPaths{signer: b.config.ServiceAccountSigningKey, others: b.config.ServiceAccountKeyFiles}
	if keys.signer == "" && b.config.Storage == options.StorageMemory {
		// No other process will ever see the accounts, so that their tokens may die with this one, too.
		var err error
		if keys.own, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	}
	var err error
	if config.Signer, config.Keys, err = keys.load(); err != nil {
		return nil, fail(err)
	}
	signed, err := tokens.New(config)
	if err != nil {
		return nil, fail(err)
	}
	files, err := follow.New(func(context.Context, [][]byte) error {
		signer, others, err := keys.load()
		if err != nil {
			return err
		}
		return signed.SetKeys(signer, others)
	}, keys.all()...)
	if err != nil {
		return nil, fail(err)
	}
	return &accountTokens{Tokens: signed, files: files}, nil
}

// keyPaths are the files of the key that signs tokens and of those that only verify them.
type keyPaths struct {
	signer string
	others []string
	own    crypto.Signer // where there is no file of one; nil for none
}

func (k keyPaths) all() []string {
	if k.signer == "" {
		return k.others
	}
	return append([]string{k.signer}, k.others...)
}

func (k keyPaths) load() (signer crypto.Signer, others []crypto.PublicKey, err error) {
	signer = k.own
	if k.signer != "" {
		if signer, err = tokens.LoadSigner(k.signer); err != nil {
			return nil, nil, err
		}
	}
	others, err = tokens.LoadKeys(k.others...)
	return signer, others, err
}

// longestExtension is how long tokens live at most that outlive what was asked for.
const longestExtension = 365 * 24 * time.Hour

// newRemoteTokens has tokens signed by another process, which also says how long they may live.
func newRemoteTokens(b *base, config tokens.Config, undo *cleanup) (*accountTokens, error) {
	ctx := context.Background()
	fail := func(err error) error {
		return fmt.Errorf("while setting up external-jwt-signer (--service-account-signing-endpoint): %w", err)
	}
	signer, err := external.Dial(ctx, b.config.ServiceAccountSigningEndpoint, b.config.Clock, b.registry.Register)
	if err != nil {
		return nil, fail(err)
	}
	undo.add(signer.Close)
	longest, err := signer.LongestLife(ctx)
	if err != nil {
		return nil, fail(err)
	}
	if config.MaxExpiration > longest {
		return nil, fmt.Errorf("service-account-max-token-expiration cannot be set longer than the token expiration "+
			"supported by service-account-signing-endpoint: %s > %s", config.MaxExpiration, longest)
	}
	config.MaxExpiration = cmp.Or(config.MaxExpiration, longest)
	config.ExtendedLife = min(longest, longestExtension)
	config.Remote = signer
	signed, err := tokens.New(config)
	if err != nil {
		return nil, err
	}
	files, err := follow.New(func(context.Context, [][]byte) error { return nil })
	if err != nil {
		return nil, err
	}
	signer.Follow(signed.SetRemoteKeys)
	return &accountTokens{Tokens: signed, files: files, signer: signer}, nil
}
