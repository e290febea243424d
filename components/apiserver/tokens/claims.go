package tokens

import (
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// claims is the content of a token.
type claims struct {
	jwt.Claims
	// Audience stands for that of jwt.Claims, which is written as a string when there is one.
	Audience   audience `json:"aud,omitempty"`
	Kubernetes *binding `json:"kubernetes.io,omitempty"`
	legacy
}

// audience is always written as a list, and read in both forms.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(in []byte) error {
	var read jwt.Audience
	if err := read.UnmarshalJSON(in); err != nil {
		return err
	}
	*a = audience(read)
	return nil
}

// binding says whose token it is, and with what it ends.
type binding struct {
	Namespace      string           `json:"namespace,omitempty"`
	Node           *ref             `json:"node,omitempty"`
	Pod            *ref             `json:"pod,omitempty"`
	Secret         *ref             `json:"secret,omitempty"`
	ServiceAccount ref              `json:"serviceaccount,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

type ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// legacy are the claims of tokens kept in Secrets.
type legacy struct {
	ServiceAccountName string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	ServiceAccountUID  string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
	SecretName         string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	Namespace          string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
}

// legacyIssuer is the issuer of tokens kept in Secrets.
const legacyIssuer = "kubernetes/serviceaccount"

// newClaims fills in what follows from the account and the times.
func newClaims(issuer string, audiences []string, b binding, now time.Time, life time.Duration) claims {
	return claims{
		Claims: jwt.Claims{
			Issuer:    issuer,
			Subject:   serviceaccount.MakeUsername(b.Namespace, b.ServiceAccount.Name),
			IssuedAt:  jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now),
			Expiry:    jwt.NewNumericDate(now.Add(life)),
			ID:        uuid.NewString(),
		},
		Audience:   audiences,
		Kubernetes: &b,
	}
}
