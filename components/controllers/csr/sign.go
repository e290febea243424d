package csr

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	certificates "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certlisters "k8s.io/client-go/listers/certificates/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

const (
	// backdate forgives clocks that are behind.
	backdate = 5 * time.Minute
	// short certificates last as long as asked for; of longer ones the backdating is taken off.
	short = 8 * time.Hour
	// shortest is what a requester gets at least.
	shortest = 10 * time.Minute
)

// Authority is the pair of PEM files a signer signs with. They are read for each certificate, so that they can be
// renewed.
type Authority struct{ CertFile, KeyFile string }

// rules are what each signer refuses.
var rules = map[string]func(*x509.CertificateRequest, []certificates.KeyUsage) error{
	certificates.KubeAPIServerClientSignerName:        apiClient,
	certificates.KubeAPIServerClientKubeletSignerName: kubeletClient,
	certificates.KubeletServingSignerName:             kubeletServing,
	LegacyUnknownSignerName:                           anything,
}

// LegacyUnknownSignerName is what requests had before signers had names; its certificates are good for no purpose
// that Kubernetes knows.
const LegacyUnknownSignerName = "kubernetes.io/legacy-unknown"

// Signer signs approved requests.
type Signer struct {
	env         runner.Env
	csrs        certlisters.CertificateSigningRequestLister
	authorities map[string]Authority
	duration    time.Duration
	loop        *runner.Loop[string]
}

// NewSigner makes the controller: authorities are by the signer's name, duration is what certificates last at most.
// It starts working with Run.
func NewSigner(env runner.Env, authorities map[string]Authority, duration time.Duration) (*Signer, error) {
	csrs := env.Informers.Certificates().V1().CertificateSigningRequests()
	s := &Signer{env: env, csrs: csrs.Lister(), authorities: authorities, duration: duration}
	for name, authority := range authorities {
		if _, _, err := authority.load(); err != nil {
			return nil, fmt.Errorf("signer %s: %w", name, err)
		}
	}
	s.loop = runner.NewLoop("certificate", env, s.reconcile)
	return s, s.loop.Watch(csrs.Informer(), runner.Handle(func(_, new *certificates.CertificateSigningRequest) {
		if new != nil {
			s.loop.Add(new.Name)
		}
	}))
}

// Run works until ctx ends.
func (s *Signer) Run(ctx context.Context) error { return s.loop.Run(ctx) }

func (s *Signer) reconcile(ctx context.Context, name string) error {
	csr, err := s.csrs.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	authority, ours := s.authorities[csr.Spec.SignerName]
	if !ours || !waitsForSigner(csr) {
		return nil
	}
	changed := csr.DeepCopy()
	request, err := parse(csr.Spec.Request)
	if err == nil {
		err = rules[csr.Spec.SignerName](request, csr.Spec.Usages)
	}
	if err != nil {
		now := metav1.NewTime(s.env.Clock.Now())
		changed.Status.Conditions = append(changed.Status.Conditions, certificates.CertificateSigningRequestCondition{
			Type: certificates.CertificateFailed, Status: v1.ConditionTrue, Reason: "SignerValidationFailure",
			Message:        err.Error(),
			LastUpdateTime: now, LastTransitionTime: now,
		})
	} else if changed.Status.Certificate, err = s.sign(authority, csr, request); err != nil {
		return fmt.Errorf("sign certificate signing request %s: %w", name, err)
	}
	_, err = s.env.Client.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, changed,
		metav1.UpdateOptions{})
	return runner.IgnoreGone(err)
}

func waitsForSigner(csr *certificates.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 && condition(csr, certificates.CertificateApproved) != nil &&
		condition(csr, certificates.CertificateDenied) == nil && condition(csr, certificates.CertificateFailed) == nil
}

func (s *Signer) sign(authority Authority, csr *certificates.CertificateSigningRequest,
	request *x509.CertificateRequest) ([]byte, error) {
	if err := request.CheckSignature(); err != nil {
		return nil, err
	}
	ca, key, err := authority.load()
	if err != nil {
		return nil, err
	}
	template, err := template(csr, request)
	if err != nil {
		return nil, err
	}
	template.NotBefore, template.NotAfter, err = validity(csr.Spec.ExpirationSeconds, s.duration, s.env.Clock.Now(),
		ca.NotAfter)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, request.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// validity is as long as asked for, within the bounds of the signer and of its own certificate.
func validity(asked *int32, longest time.Duration, now, caEnds time.Time) (from, to time.Time, err error) {
	duration := longest
	if asked != nil {
		duration = max(min(time.Duration(*asked)*time.Second, longest), shortest)
	}
	from, to = now.Add(-backdate), now.Add(duration)
	if duration >= short {
		to = to.Add(-backdate)
	}
	if to.After(caEnds) {
		to = caEnds
	}
	if !to.After(now) {
		return from, to, fmt.Errorf("the signer's certificate has expired at %s: renew it", caEnds)
	}
	return from, to, nil
}

func template(csr *certificates.CertificateSigningRequest,
	request *x509.CertificateRequest) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               request.Subject,
		DNSNames:              request.DNSNames,
		IPAddresses:           request.IPAddresses,
		EmailAddresses:        request.EmailAddresses,
		URIs:                  request.URIs,
		BasicConstraintsValid: true,
	}
	for _, usage := range csr.Spec.Usages {
		bit, isKeyUsage := keyUsages[usage]
		extended, isExtended := extendedUsages[usage]
		switch {
		case isKeyUsage:
			template.KeyUsage |= bit
		case isExtended:
			template.ExtKeyUsage = append(template.ExtKeyUsage, extended)
		default:
			return nil, fmt.Errorf("usage %q is not known", usage)
		}
	}
	return template, nil
}

var keyUsages = map[certificates.KeyUsage]x509.KeyUsage{
	certificates.UsageSigning:           x509.KeyUsageDigitalSignature,
	certificates.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
	certificates.UsageContentCommitment: x509.KeyUsageContentCommitment,
	certificates.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
	certificates.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
	certificates.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
	certificates.UsageCertSign:          x509.KeyUsageCertSign,
	certificates.UsageCRLSign:           x509.KeyUsageCRLSign,
	certificates.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
	certificates.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
}

var extendedUsages = map[certificates.KeyUsage]x509.ExtKeyUsage{
	certificates.UsageAny:             x509.ExtKeyUsageAny,
	certificates.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
	certificates.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
	certificates.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
	certificates.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
	certificates.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
	certificates.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
	certificates.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
	certificates.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
	certificates.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
	certificates.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
	certificates.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	certificates.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}

func (a Authority) load() (*x509.Certificate, crypto.Signer, error) {
	pair, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the pair %s, %s: %w", a.CertFile, a.KeyFile, err)
	}
	ca, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("the key in %s can't sign", a.KeyFile)
	}
	return ca, key, nil
}
