package tokens

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/util/keyutil"
)

// LoadSigner reads a private key in PEM form.
func LoadSigner(file string) (crypto.Signer, error) {
	key, err := keyutil.PrivateKeyFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to parse service-account-signing-key-file %s: %w", file, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key in %s can't sign", file)
	}
	return signer, nil
}

// LoadKeys reads the public keys in PEM files; of private keys their public half is taken.
func LoadKeys(files ...string) ([]crypto.PublicKey, error) {
	var keys []crypto.PublicKey
	for _, file := range files {
		found, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("failed to parse service-account-key-file %s: %w", file, err)
		}
		for _, k := range found {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// publicKey gives a key its algorithm and an identity that is the same wherever the key is used: the hash of its DER
// form.
func publicKey(key crypto.PublicKey) (jose.JSONWebKey, error) {
	algorithm, err := algorithmOf(key)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("encoding the public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return jose.JSONWebKey{
		Key: key, KeyID: base64.RawURLEncoding.EncodeToString(sum[:]), Algorithm: string(algorithm), Use: "sig",
	}, nil
}

func algorithmOf(key crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", fmt.Errorf("unknown elliptic curve %s: use P-256, P-384 or P-521", k.Curve.Params().Name)
	}
	return "", fmt.Errorf("unknown key type %T: use RSA or ECDSA", key)
}
