package satoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/keyutil"
)

// issuer is what tokens in Secrets have always named.
const issuer = "kubernetes/serviceaccount"

// claims are those of a token that is kept in a Secret
// (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#secret-token).
type claims struct {
	jwt.Claims
	Namespace   string `json:"kubernetes.io/serviceaccount/namespace"`
	SecretName  string `json:"kubernetes.io/serviceaccount/secret.name"`
	AccountName string `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID  string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// Signer makes tokens.
type Signer struct{ signer jose.Signer }

// NewSigner makes a signer from a private key in PEM: RSA, or ECDSA of P-256, P-384 or P-521.
func NewSigner(pem []byte) (*Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(pem)
	if err != nil {
		return nil, err
	}
	private, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key can't sign")
	}
	var algorithm jose.SignatureAlgorithm
	switch k := key.(type) {
	case *rsa.PrivateKey:
		algorithm = jose.RS256
	case *ecdsa.PrivateKey:
		switch k.Curve.Params().BitSize {
		case 256:
			algorithm = jose.ES256
		case 384:
			algorithm = jose.ES384
		case 521:
			algorithm = jose.ES512
		}
	}
	if algorithm == "" {
		return nil, fmt.Errorf("a key of type %T can't sign tokens: use RSA or ECDSA", key)
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(der)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{
		Algorithm: string(algorithm), Key: key, KeyID: base64.RawURLEncoding.EncodeToString(id[:]), Use: "sig",
	}}, nil)
	if err != nil {
		return nil, err
	}
	return &Signer{signer: signer}, nil
}

func (s *Signer) token(account *v1.ServiceAccount, secret string) ([]byte, error) {
	token, err := jwt.Signed(s.signer).Claims(claims{
		Claims: jwt.Claims{Issuer: issuer, Subject: "system:serviceaccount:" + account.Namespace + ":" +
			account.Name},
		Namespace:   account.Namespace,
		SecretName:  secret,
		AccountName: account.Name,
		AccountUID:  string(account.UID),
	}).Serialize()
	return []byte(token), err
}
