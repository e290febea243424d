package tokens

import (
	"context"
	"crypto"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
)

// Remote signs tokens with keys that this process doesn't have.
type Remote interface {
	// Sign makes a token of claims in JSON.
	Sign(ctx context.Context, claims []byte) (token string, err error)
	// Refresh looks for keys that are not known yet, and sets them by SetRemoteKeys.
	Refresh(ctx context.Context) error
	// Fresh is for how long the keys are as they are.
	Fresh() time.Duration
}

// RemoteKey verifies tokens that a Remote has signed.
type RemoteKey struct {
	ID   string
	Key  crypto.PublicKey
	PKIX string // the same, encoded
	// Hidden keys verify tokens of former times here, but others are not told of them.
	Hidden bool
}

// Algorithm tells whether tokens may be signed by it.
func Algorithm(name string) bool { return slices.Contains(algorithms, jose.SignatureAlgorithm(name)) }

// SetRemoteKeys replaces all keys by those of the Remote. A key of a kind that signs no tokens is no reason to refuse
// the others.
func (t *Tokens) SetRemoteKeys(keys []RemoteKey) {
	ring := &keyring{verified: lru.New(rememberedTokens)}
	for _, k := range keys {
		key, err := publicKey(k.Key)
		if err != nil {
			klog.Background().Error(err, "Tokens can't be signed by this key of the external signer", "kid", k.ID)
			key.Key = k.Key
		}
		key.KeyID = k.ID
		ring.keys = append(ring.keys, key)
		if !k.Hidden && err == nil {
			ring.told = append(ring.told, key)
		}
	}
	t.ring.Store(ring)
}
