package csr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	authorization "k8s.io/api/authorization/v1"
	certificates "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
	"quintet.dev/quintet/internal/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const node = "system:node:n1"

var (
	clientUsages  = []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageClientAuth}
	servingUsages = []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageServerAuth}
)

func request(t *testing.T, template *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func subject(name string, groups ...string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: groups}}
}

func with(r *x509.CertificateRequest, change func(*x509.CertificateRequest)) *x509.CertificateRequest {
	change(r)
	return r
}

func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		signer  string
		request *x509.CertificateRequest
		usages  []certificates.KeyUsage
		problem string
	}{
		"kubelet": {certificates.KubeAPIServerClientKubeletSignerName, subject(node, nodeGroup),
			clientUsages, ""},
		"kubelet with RSA": {certificates.KubeAPIServerClientKubeletSignerName, subject(node, nodeGroup),
			append(clientUsages[:2:2], certificates.UsageKeyEncipherment), ""},
		"other group": {certificates.KubeAPIServerClientKubeletSignerName, subject(node, "system:masters"),
			clientUsages, "organization"},
		"two groups": {certificates.KubeAPIServerClientKubeletSignerName,
			subject(node, nodeGroup, "system:masters"), clientUsages, "organization"},
		"other name": {certificates.KubeAPIServerClientKubeletSignerName, subject("admin", nodeGroup),
			clientUsages, "common name"},
		"wants to serve": {certificates.KubeAPIServerClientKubeletSignerName, subject(node, nodeGroup),
			servingUsages, "usages"},
		"client with a name": {certificates.KubeAPIServerClientKubeletSignerName,
			with(subject(node, nodeGroup), func(r *x509.CertificateRequest) { r.DNSNames = []string{"a"} }),
			clientUsages, "DNS"},
		"serving": {certificates.KubeletServingSignerName,
			with(subject(node, nodeGroup),
				func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{10, 0, 0, 1}} }), servingUsages, ""},
		"serving nothing": {certificates.KubeletServingSignerName, subject(node, nodeGroup), servingUsages,
			"at least one"},
		"serving with e-mail": {certificates.KubeletServingSignerName,
			with(subject(node, nodeGroup),
				func(r *x509.CertificateRequest) { r.DNSNames = []string{"a"}; r.EmailAddresses = []string{"a@b"} }),
			servingUsages, "email"},
		"client": {certificates.KubeAPIServerClientSignerName, subject("jane", "dev"), clientUsages, ""},
		"client that serves": {certificates.KubeAPIServerClientSignerName, subject("jane", "dev"),
			append(clientUsages[:2:2], certificates.UsageServerAuth), "server auth"},
		"client that doesn't": {certificates.KubeAPIServerClientSignerName, subject("jane", "dev"), servingUsages[:1],
			"client auth"},
		"whatever": {LegacyUnknownSignerName, subject("x"), servingUsages, ""},
	} {
		parsed, err := parse(request(t, tc.request))
		if err != nil {
			t.Fatal(err)
		}
		err = rules[tc.signer](parsed, tc.usages)
		if (err == nil) != (tc.problem == "") || (err != nil && !strings.Contains(err.Error(), tc.problem)) {
			t.Errorf("%s: %v, want %q", name, err, tc.problem)
		}
	}
	if _, err := parse([]byte("nonsense")); err == nil {
		t.Error("nonsense was parsed")
	}
}

func TestValidity(t *testing.T) {
	now := time.Unix(1000000, 0)
	year := 365 * 24 * time.Hour
	far := now.Add(10 * year)
	for name, tc := range map[string]struct {
		asked *int32
		ends  time.Time
		want  time.Duration
	}{
		"default":       {nil, far, year - backdate},
		"short":         {ptr.To[int32](3600), far, time.Hour},
		"too short":     {ptr.To[int32](60), far, shortest},
		"too long":      {ptr.To[int32](1 << 30), far, year - backdate},
		"authority end": {nil, now.Add(time.Hour), time.Hour},
	} {
		from, to, err := validity(tc.asked, year, now, tc.ends)
		if err != nil || !from.Equal(now.Add(-backdate)) || to.Sub(now) != tc.want {
			t.Errorf("%s: from %v for %v, error %v", name, now.Sub(from), to.Sub(now), err)
		}
	}
	if _, _, err := validity(nil, year, now, now.Add(-time.Second)); err == nil {
		t.Error("signed with an expired authority")
	}
}

func TestStale(t *testing.T) {
	now := time.Unix(1000000, 0)
	csr := func(age time.Duration, certificate string, decided certificates.RequestConditionType,
		since time.Duration) *certificates.CertificateSigningRequest {
		c := &certificates.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))},
		}
		c.Status.Certificate = []byte(certificate)
		if decided != "" {
			c.Status.Conditions = []certificates.CertificateSigningRequestCondition{{Type: decided,
				Status: v1.ConditionTrue, LastUpdateTime: metav1.NewTime(now.Add(-since))}}
		}
		return c
	}
	for name, tc := range map[string]struct {
		csr  *certificates.CertificateSigningRequest
		want bool
	}{
		"pending":           {csr(23*time.Hour, "", "", 0), false},
		"pending for long":  {csr(25*time.Hour, "", "", 0), true},
		"denied":            {csr(25*time.Hour, "", certificates.CertificateDenied, time.Minute), false},
		"denied long ago":   {csr(25*time.Hour, "", certificates.CertificateDenied, 2*time.Hour), true},
		"failed long ago":   {csr(25*time.Hour, "", certificates.CertificateFailed, 2*time.Hour), true},
		"issued":            {csr(time.Hour, "x", certificates.CertificateApproved, time.Minute), false},
		"issued long ago":   {csr(25*time.Hour, "x", certificates.CertificateApproved, 2*time.Hour), true},
		"approved, waiting": {csr(25*time.Hour, "", certificates.CertificateApproved, 2*time.Hour), false},
	} {
		if got := stale(tc.csr, now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestKubeletGetsItsCertificate goes the whole way: a request that may be approved, is, and is signed.
func TestKubeletGetsItsCertificate(t *testing.T) {
	ca, err := certs.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	authority := Authority{CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key")}
	for file, data := range map[string][]byte{authority.CertFile: ca.Pair.Cert, authority.KeyFile: ca.Pair.Key} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	client := runnertest.NewClient()
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool,
		runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorization.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = review.Spec.User == node &&
			review.Spec.ResourceAttributes.Subresource == "selfnodeclient"
		return true, review, nil
	})
	runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return NewApprover(env) },
		func(env runner.Env) (runner.Controller, error) {
			return NewSigner(env, map[string]Authority{certificates.KubeAPIServerClientKubeletSignerName: authority},
				time.Hour)
		})
	for name, user := range map[string]string{"mine": node, "anothers": "system:node:n2"} {
		_, err = client.CertificatesV1().CertificateSigningRequests().Create(t.Context(),
			&certificates.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: certificates.CertificateSigningRequestSpec{
					Request:    request(t, subject(node, nodeGroup)),
					SignerName: certificates.KubeAPIServerClientKubeletSignerName,
					Usages:     clientUsages, Username: user, ExpirationSeconds: ptr.To[int32](1200),
				},
			}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	var certificate []byte
	runnertest.Eventually(t, func() (bool, string) {
		csr, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "mine", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		certificate = csr.Status.Certificate
		return len(certificate) > 0, fmt.Sprintf("%+v", csr.Status)
	})
	block, _ := pem.Decode(certificate)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Pair.Cert)
	if _, err := parsed.Verify(x509.VerifyOptions{Roots: roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if parsed.Subject.CommonName != node || parsed.IsCA || time.Until(parsed.NotAfter) > 20*time.Minute {
		t.Errorf("subject %s, CA %v, until %v", parsed.Subject, parsed.IsCA, parsed.NotAfter)
	}
	other, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "anothers", metav1.GetOptions{})
	if err != nil || !open(other) {
		t.Errorf("another node's request was decided on: %+v %v", other.Status, err)
	}
}
