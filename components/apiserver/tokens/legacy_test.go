package tokens

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
)

func TestLegacySecretToken(t *testing.T) {
	key := ecKey(t)
	used := map[Use]int{}
	f := newFixture(t, key, func(c *Config) { c.Used = func(u Use) { used[u]++ } })
	c := claims{Claims: jwt.Claims{Issuer: legacyIssuer, Subject: "system:serviceaccount:ns:builder"},
		legacy: legacy{ServiceAccountName: "builder", ServiceAccountUID: "sa-uid", SecretName: "tok", Namespace: "ns"}}
	token, err := f.sign(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := f.AuthenticateToken(context.Background(), token); ok {
		t.Error("accepted without its secret")
	}
	f.store.Put(corev1.Resource("secrets"),
		&corev1.Secret{ObjectMeta: meta("ns", "tok", "t"), Data: map[string][]byte{"token": []byte(token)}})
	response, ok, err := f.AuthenticateToken(context.Background(), token)
	if !ok || response.User.GetName() != "system:serviceaccount:ns:builder" {
		t.Error(ok, err)
	}
	secret, err := f.store.Get(context.Background(), corev1.Resource("secrets"), "ns", "tok")
	if err != nil || secret.GetLabels()[lastUsedLabel] != f.clock.Now().UTC().Format(time.DateOnly) {
		t.Errorf("the use is not noted: %v, %v", secret.GetLabels(), err)
	}
	f.store.Put(corev1.Resource("secrets"), &corev1.Secret{Data: map[string][]byte{"token": []byte(token)},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "tok",
			Labels: map[string]string{invalidSinceLabel: "2026-01-01"}}})
	if _, ok, err := f.AuthenticateToken(context.Background(), token); ok ||
		!strings.Contains(err.Error(), "has been marked invalid") {
		t.Errorf("a token that was marked invalid: %v, %v", ok, err)
	}
	f.store.Put(corev1.Resource("secrets"),
		&corev1.Secret{ObjectMeta: meta("ns", "tok", "t"), Data: map[string][]byte{"token": []byte("other")}})
	if _, ok, _ := f.AuthenticateToken(context.Background(), token); ok {
		t.Error("accepted though its secret holds another")
	}
	if used[UseLegacy] != 4 || used[UseLegacyOther] != 1 || used[UseLegacyAuto] != 0 || used[UseInvalid] != 1 {
		t.Errorf("uses: %v", used)
	}
	careless := newFixture(t, key, func(c *Config) { c.NoLookup = true })
	if _, ok, err := careless.AuthenticateToken(context.Background(), token); !ok {
		t.Errorf("without lookup: %v", err)
	}
}

// TestLegacyRefusals: why a token in a Secret is refused, and that its use is in the audit log all the same.
func TestLegacyRefusals(t *testing.T) {
	now := metav1.Now()
	whole := legacy{ServiceAccountName: "builder", ServiceAccountUID: "sa-uid", SecretName: "tok", Namespace: "ns"}
	account := func(f *fixture, uid string, deleted *metav1.Time) {
		m := meta("ns", "builder", uid)
		m.DeletionTimestamp = deleted
		f.store.Put(corev1.Resource("serviceaccounts"), &corev1.ServiceAccount{ObjectMeta: m})
	}
	for _, tt := range []struct {
		name, subject string
		legacy        legacy
		change        func(f *fixture)
		want          string
	}{
		{"no subject", "", whole, func(*fixture) {}, "sub claim is missing"},
		{"no secret", "system:serviceaccount:ns:builder",
			legacy{ServiceAccountName: "builder", ServiceAccountUID: "u", Namespace: "ns"}, func(*fixture) {},
			"secretName claim is missing"},
		{"other subject", "system:serviceaccount:ns:other", whole, func(*fixture) {}, "sub claim is invalid"},
		{"secret gone", "", whole, func(f *fixture) { f.store.Remove(corev1.Resource("secrets"), "ns", "tok") },
			"Token has been invalidated"},
		{"account gone", "", whole,
			func(f *fixture) { f.store.Remove(corev1.Resource("serviceaccounts"), "ns", "builder") },
			`serviceaccounts "builder" not found`},
		{"account going", "", whole, func(f *fixture) { account(f, "sa-uid", &now) },
			"ServiceAccount ns/builder has been deleted"},
		{"account made again", "", whole, func(f *fixture) { account(f, "new", nil) },
			"ServiceAccount UID (new) does not match claim (sa-uid)"},
		{"other audience", "", whole, nil,
			`token audiences ["https://kubernetes.default.svc"] is invalid for the target audiences ["vault"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, ecKey(t), nil)
			c := claims{Claims: jwt.Claims{Issuer: legacyIssuer, Subject: tt.subject}, legacy: tt.legacy}
			if tt.subject == "" && tt.name != "no subject" {
				c.Subject = "system:serviceaccount:ns:builder"
			}
			token, err := f.sign(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			f.store.Put(corev1.Resource("secrets"),
				&corev1.Secret{ObjectMeta: meta("ns", "tok", "t"), Data: map[string][]byte{"token": []byte(token)}})
			ctx := audit.WithAuditContext(t.Context())
			if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata},
				nil); err != nil {
				t.Fatal(err)
			}
			if tt.change == nil {
				ctx = authenticator.WithAudiences(ctx, authenticator.Audiences{"vault"})
			} else {
				tt.change(f)
			}
			if _, ok, err := f.AuthenticateToken(ctx, token); ok || err == nil || err.Error() != tt.want {
				t.Errorf("got %v, %v; want %s", ok, err, tt.want)
			}
			if got, ok := audit.AuditContextFrom(ctx).GetEventAnnotation(annotationLegacy); !ok || got != c.Subject {
				t.Errorf("annotated with %q, %v", got, ok)
			}
		})
	}
}

// TestUseOfAnotherSecret: the day is not noted on a Secret that has come in the place of the one that was used.
func TestUseOfAnotherSecret(t *testing.T) {
	f := newFixture(t, ecKey(t), nil)
	secrets := corev1.Resource("secrets")
	f.store.Put(secrets, &corev1.Secret{ObjectMeta: meta("ns", "tok", "new")})
	f.noteDay(t.Context(), &corev1.Secret{ObjectMeta: meta("ns", "tok", "old")})
	if now, err := f.store.Get(t.Context(), secrets, "ns", "tok"); err != nil || len(now.GetLabels()) > 0 {
		t.Errorf("labels %v, %v", now.GetLabels(), err)
	}
	f.noteDay(t.Context(), &corev1.Secret{ObjectMeta: meta("ns", "tok", "new")})
	if now, err := f.store.Get(t.Context(), secrets, "ns", "tok"); err != nil || len(now.GetLabels()) != 1 {
		t.Errorf("labels %v, %v", now.GetLabels(), err)
	}
}
