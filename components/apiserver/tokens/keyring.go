package tokens

import (
	"crypto"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/utils/lru"
)

// keyring is the keys of one moment.
type keyring struct {
	signer jose.Signer // nil: nothing is signed
	keys   []jose.JSONWebKey
	told   []jose.JSONWebKey // those of keys that others may know
	// verified remembers the claims of tokens whose signature was right, by hash of the token. What the claims say is
	// checked on every use.
	verified *lru.Cache
}

// rememberedTokens bounds how many verified tokens are kept in memory (some 600 bytes each).
const rememberedTokens = 4096

func newKeyring(signer crypto.Signer, public []crypto.PublicKey) (*keyring, error) {
	r := &keyring{verified: lru.New(rememberedTokens)}
	if signer != nil {
		key, err := publicKey(signer.Public())
		if err != nil {
			return nil, fmt.Errorf("service-account-signing-key-file: %w", err)
		}
		r.keys = append(r.keys, key)
		r.signer, err = jose.NewSigner(jose.SigningKey{
			Algorithm: jose.SignatureAlgorithm(key.Algorithm),
			Key:       jose.JSONWebKey{Key: signer, KeyID: key.KeyID, Algorithm: key.Algorithm},
		}, nil)
		if err != nil {
			return nil, fmt.Errorf("service-account-signing-key-file: %w", err)
		}
	}
	for _, k := range public {
		key, err := publicKey(k)
		if err != nil {
			return nil, fmt.Errorf("service-account-key-file: %w", err)
		}
		if len(r.keys) == 0 || r.keys[0].KeyID != key.KeyID {
			r.keys = append(r.keys, key)
		}
	}
	if len(r.keys) == 0 {
		return nil, errors.New("service-account-key-file: no key to verify service account tokens with")
	}
	r.told = r.keys
	return r, nil
}

// knows tells whether there is a key of that identity; none names all of them.
func (r *keyring) knows(kid string) bool {
	return kid == "" || slices.ContainsFunc(r.keys, func(k jose.JSONWebKey) bool { return k.KeyID == kid })
}
