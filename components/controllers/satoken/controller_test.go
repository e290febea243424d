package satoken

import (
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"

	"quintet.dev/quintet/internal/certs"
)

func TestJudge(t *testing.T) {
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	whole := func() *v1.Secret {
		return &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s",
				Annotations: map[string]string{v1.ServiceAccountNameKey: "a", v1.ServiceAccountUIDKey: "u"}},
			Data: map[string][]byte{"token": []byte("t"), "namespace": []byte("ns"), "ca.crt": []byte("ca")},
		}
	}
	for name, tc := range map[string]struct {
		change  func(*v1.Secret)
		account *v1.ServiceAccount
		want    verdict
	}{
		"whole":           {func(*v1.Secret) {}, account, keep},
		"account gone":    {func(*v1.Secret) {}, nil, drop},
		"account renewed": {func(s *v1.Secret) { s.Annotations[v1.ServiceAccountUIDKey] = "old" }, account, drop},
		"new": {func(s *v1.Secret) { delete(s.Annotations, v1.ServiceAccountUIDKey); s.Data = nil },
			account, fill},
		"no token":        {func(s *v1.Secret) { delete(s.Data, "token") }, account, fill},
		"other authority": {func(s *v1.Secret) { s.Data["ca.crt"] = []byte("old") }, account, fill},
	} {
		secret := whole()
		tc.change(secret)
		if got := verdictOf(secret, tc.account, []byte("ca")); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestToken(t *testing.T) {
	pair, err := certs.SigningKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := NewSigner(pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signer.token(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}},
		"s")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(string(token), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := keyutil.ParsePublicKeysPEM(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	var got claims
	if err := parsed.Claims(keys[0], &got); err != nil {
		t.Fatal(err)
	}
	if got.Subject != "system:serviceaccount:ns:a" || got.Issuer != issuer || got.SecretName != "s" ||
		got.AccountUID != "u" {
		t.Errorf("claims %+v", got)
	}
	if _, err := NewSigner([]byte("nonsense")); err == nil {
		t.Error("nonsense was taken for a key")
	}
}
