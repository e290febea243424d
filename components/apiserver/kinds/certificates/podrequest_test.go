package certificates

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func elliptical(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// stubbed is a valid request for the certificate of a key.
func stubbed(t *testing.T, key crypto.Signer) *podRequest {
	t.Helper()
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	r := &podRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}}
	r.Spec = certificatesv1beta1.PodCertificateRequestSpec{SignerName: "a.b/c", PodName: "p", PodUID: "pu",
		ServiceAccountName: "sa", ServiceAccountUID: "su", NodeName: "n", NodeUID: "nu", StubPKCS10Request: stub}
	DefaultPodRequest(r)
	return r
}

// proven makes of a request one of the former form: with a key, and a signature by it.
func proven(t *testing.T, r *podRequest, key crypto.Signer, signed string) *podRequest {
	t.Helper()
	r.Spec.StubPKCS10Request = nil
	var err error
	if r.Spec.PKIXPublicKey, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(signed))
	switch k := key.(type) {
	case ed25519.PrivateKey:
		r.Spec.ProofOfPossession = ed25519.Sign(k, []byte(signed))
	case *ecdsa.PrivateKey:
		r.Spec.ProofOfPossession, err = ecdsa.SignASN1(rand.Reader, k, digest[:])
	case *rsa.PrivateKey:
		r.Spec.ProofOfPossession, err = rsa.SignPSS(rand.Reader, k, crypto.SHA256, digest[:], nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func textsOf(errs field.ErrorList) string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return strings.Join(out, "; ")
}

func TestValidatePodRequest(t *testing.T) {
	type spec = certificatesv1beta1.PodCertificateRequestSpec
	key := elliptical(t, elliptic.P256())
	for name, test := range map[string]struct {
		change func(s *spec)
		want   string
	}{
		"as it is": {func(*spec) {}, ""},
		"no signer": {func(s *spec) { s.SignerName = "" },
			"spec.signerName: Required value"},
		"pod": {func(s *spec) { s.PodName, s.PodUID = "P", "" },
			`spec.podName: Invalid value: "P": a lowercase`},
		"UID": {func(s *spec) { s.NodeUID = "" },
			`spec.nodeUID: Invalid value: "": must not be empty`},
		"long UID": {func(s *spec) { s.ServiceAccountUID = types.UID(strings.Repeat("u", 129)) },
			"spec.serviceAccountUID: Too long: may not be more than 128 bytes"},
		"annotation": {func(s *spec) {
			s.UnverifiedUserAnnotations = map[string]string{"a": "b"}
		}, `spec.unverifiedUserAnnotations: Invalid value: "a": must be a domain-prefixed key`},
		"life": {func(s *spec) { s.MaxExpirationSeconds = nil },
			"spec.maxExpirationSeconds: Required value: must be set"},
		"short life": {func(s *spec) { s.MaxExpirationSeconds = ptr.To[int32](3599) },
			"must be in the range [3600, 7862400]"},
		"long life": {func(s *spec) {
			s.SignerName, s.MaxExpirationSeconds = "x.kubernetes.io/c", ptr.To[int32](86401)
		}, "must be in the range [3600, 86400]"},
		"both forms": {func(s *spec) { s.PKIXPublicKey = []byte{1} },
			"exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"},
		"neither": {func(s *spec) { s.StubPKCS10Request = nil },
			"spec.pkixPublicKey: Invalid value: null: must be a valid PKIX-serialized public key"},
		"stub": {func(s *spec) { s.StubPKCS10Request = []byte{1} },
			"spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"},
		"signature": {func(s *spec) { s.StubPKCS10Request[len(s.StubPKCS10Request)-1] ^= 1 },
			"spec.stubPKCS10Request: Invalid value: could not verify CSR signature"},
		"size": {func(s *spec) { s.StubPKCS10Request = make([]byte, 10241) },
			"spec.stubPKCS10Request: Too long: may not be more than 10240 bytes"},
	} {
		r := stubbed(t, key)
		test.change(&r.Spec)
		if got := textsOf(ValidatePodRequest(r)); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestKeysOfPodRequests(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		key  crypto.Signer
		want string
	}{
		"ED25519": {edwards, ""}, "P256": {elliptical(t, elliptic.P256()), ""}, "P384": {elliptical(t, elliptic.P384()), ""},
		"P521": {elliptical(t, elliptic.P521()), ""}, "RSA3072": {large, ""},
		"P224": {elliptical(t, elliptic.P224()),
			`Invalid value: "curve P-224": elliptic public keys must use curve P256 or P384`},
		"RSA2048": {small, `Invalid value: "2048-bit modulus": RSA keys must have modulus size 3072 or 4096`},
	} {
		r := stubbed(t, test.key)
		for form, r := range map[string]*podRequest{"stub": r, "proof": proven(t, r.DeepCopy(), test.key, "pu")} {
			if got := textsOf(ValidatePodRequest(r)); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%s by %s: %q", name, form, got)
			}
		}
		if test.want == "" {
			const want = "spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"
			if got := textsOf(ValidatePodRequest(proven(t, r, test.key, "other"))); got != want {
				t.Errorf("%s of another pod: %q", name, got)
			}
		}
	}
}

// signedStatus is a certificate for a key that begins now and is good for a while, and what the status says of it.
func signedStatus(t *testing.T, key any, now time.Time, life time.Duration,
	names ...string) certificatesv1beta1.PodCertificateRequestStatus {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(life), DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, elliptical(t, elliptic.P256()))
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(now.Add(d))) }
	return certificatesv1beta1.PodCertificateRequestStatus{
		Conditions: []metav1.Condition{{Type: issued, Status: "True", Reason: "R",
			LastTransitionTime: metav1.NewTime(now)}},
		CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		NotBefore:        at(0), NotAfter: at(life), BeginRefreshAt: at(life / 2),
	}
}

func TestValidatePodRequestStatus(t *testing.T) {
	type status = certificatesv1beta1.PodCertificateRequestStatus
	now := kindtest.Noon()
	key := elliptical(t, elliptic.P256())
	old := stubbed(t, key)
	good := signedStatus(t, &key.PublicKey, now, 2*time.Hour)
	condition := func(conditionType string, value metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: value, Reason: "R", LastTransitionTime: metav1.NewTime(now)}
	}
	with := func(change func(*status)) status {
		s := *good.DeepCopy()
		change(&s)
		return s
	}
	for name, test := range map[string]struct {
		new  status
		want string
	}{
		"issued":  {good, ""},
		"denied":  {status{Conditions: []metav1.Condition{condition(denied, "True")}}, ""},
		"failed":  {status{Conditions: []metav1.Condition{condition(failed, "True")}}, ""},
		"nothing": {status{}, ""},
		"denied with a certificate": {with(func(s *status) { s.Conditions = []metav1.Condition{condition(denied, "True")} }),
			"status: Invalid value: non-condition status fields must be empty when denying or failing"},
		"certificate alone": {with(func(s *status) { s.Conditions = nil }),
			`status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"`},
		"two decisions": {status{Conditions: []metav1.Condition{condition(denied, "True"), condition(failed, "True")}},
			`status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition`},
		"false": {status{Conditions: []metav1.Condition{condition(denied, "False")}},
			`status.conditions.[0].status: Unsupported value: "False": supported values: "True"`},
		"another condition": {status{Conditions: []metav1.Condition{condition("Odd", "True")}},
			`status.conditions.[0].type: Unsupported value: "Odd": supported values: "Issued", "Denied", "Failed"`},
		"no certificate": {with(func(s *status) { s.CertificateChain = "x" }), "must contain at least one certificate"},
		"another block": {with(func(s *status) {
			s.CertificateChain = strings.ReplaceAll(s.CertificateChain, "CERTIFICATE", "KEY")
		}), "must consist entirely of CERTIFICATE PEM blocks"},
		"another block behind": {with(func(s *status) {
			s.CertificateChain += strings.ReplaceAll(s.CertificateChain, "CERTIFICATE", "KEY")
		}), "must consist entirely of CERTFICATE PEM blocks"},
		"rubbish behind": {with(func(s *status) {
			s.CertificateChain += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}))
		}), "intermediate certificate does not parse as valid X.509"},
		"rubbish": {with(func(s *status) {
			s.CertificateChain = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}))
		}), "leaf certificate does not parse as valid X.509"},
		"another key": {signedStatus(t, &elliptical(t, elliptic.P256()).PublicKey, now, 2*time.Hour),
			"leaf certificate was not issued to the requested public key"},
		"name": {signedStatus(t, &key.PublicKey, now, 2*time.Hour, "a..b"),
			"leaf certificate's DNSName should not contain '..'"},
		"no times": {with(func(s *status) { s.NotBefore, s.BeginRefreshAt = nil, nil }),
			"status.notBefore: Required value: must be present and consistent"},
		"other begin": {with(func(s *status) { s.NotBefore = s.NotAfter }), "must be set to the NotBefore time encoded"},
		"other end":   {with(func(s *status) { s.NotAfter = s.NotBefore }), "must be set to the NotAfter time encoded"},
		"long ago": {signedStatus(t, &key.PublicKey, now.Add(-5*time.Minute), 2*time.Hour),
			"must be set to within 5 minutes of kube-apiserver's current time"},
		"short": {signedStatus(t, &key.PublicKey, now, 59*time.Minute), "leaf certificate lifetime must be >= 1 hour"},
		"long": {signedStatus(t, &key.PublicKey, now, 25*time.Hour),
			"leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)"},
		"refreshed at once": {with(func(s *status) { s.BeginRefreshAt = s.NotBefore }),
			"must be at least 10 minutes after status.notBefore"},
		"refreshed late": {with(func(s *status) { s.BeginRefreshAt = s.NotAfter }),
			"must be at least 10 minutes before status.notAfter"},
	} {
		new := old.DeepCopy()
		new.Status = test.new
		if got := textsOf(ValidatePodRequestStatus(new, old, now)); (got == "") != (test.want == "") ||
			!strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if test.want == "" && decision(new) != "" {
			again := new.DeepCopy()
			if errs := ValidatePodRequestStatus(again, new, now.Add(time.Hour)); len(errs) > 0 {
				t.Errorf("%s, not changed: %v", name, errs)
			}
			again.Status.Conditions[0].Message = "other"
			if got := textsOf(ValidatePodRequestStatus(again, new, now)); !strings.Contains(got, "immutable after") {
				t.Errorf("%s, changed: %q", name, got)
			}
		}
	}
}

func TestPodRequestStrategy(t *testing.T) {
	now := metav1.NewTime(kindtest.Noon())
	key := elliptical(t, elliptic.P256())
	old := stubbed(t, key)
	if got := textsOf(ValidatePodRequestUpdate(old, old.DeepCopy())); got != "" {
		t.Error(got)
	}
	new := old.DeepCopy()
	new.Spec.PodName = "q"
	if got := textsOf(ValidatePodRequestUpdate(new, old)); !strings.Contains(got, "field is immutable") {
		t.Error(got)
	}
	new.Status.Conditions = []metav1.Condition{{Type: denied, Status: "True"}}
	if StampPodConditions(new, old, now); !new.Status.Conditions[0].LastTransitionTime.Equal(&now) {
		t.Errorf("%+v", new.Status.Conditions)
	}
	changed := new.DeepCopy()
	changed.Status.Conditions[0].Message = "other"
	if StampPodConditions(changed, new, now); changed.Status.Conditions[0].Message != "" {
		t.Errorf("a decision is changed: %+v", changed.Status.Conditions)
	}
	if row := PodRequestRow(new); row[5] != denied || PodRequestRow(old)[5] != "Pending" {
		t.Errorf("%v", row)
	}
}

func TestMaySign(t *testing.T) {
	old := stubbed(t, elliptical(t, elliptic.P256()))
	new := old.DeepCopy()
	new.Status.CertificateChain = "x"
	allowing := func(name string) api.Deps {
		return api.Deps{Authorize: func(_ context.Context, a authorizer.AttributesRecord) error {
			if a.Verb == "sign" && a.Resource == "signers" && a.Name == name && a.User.GetName() == "jane" {
				return nil
			}
			return errors.New("no")
		}}
	}
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "jane"})
	for name, want := range map[string]string{"a.b/c": "", "a.b/*": "", "*": `User "jane" is not permitted to "sign"`} {
		if got := textsOf(maySign(ctx, allowing(name).Authorize, new, old)); (got == "") != (want == "") ||
			!strings.Contains(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := textsOf(maySign(t.Context(), allowing("a.b/c").Authorize, new, old)); !strings.Contains(got,
		"cannot determine calling user") {
		t.Error(got)
	}
	if errs := maySign(ctx, allowing("none").Authorize, old, old); len(errs) > 0 {
		t.Errorf("a change that signs nothing: %v", errs)
	}
}
