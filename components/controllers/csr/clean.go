package csr

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"time"

	certificates "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	certlisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/runner"
)

const (
	cleaning = time.Hour
	// A request stays this long after it was decided on, or without a decision
	// (https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#request-signing-process).
	keepDecided = time.Hour
	keepPending = 24 * time.Hour
)

// stale tells whether the request may be deleted.
func stale(csr *certificates.CertificateSigningRequest, now time.Time) bool {
	if expired(csr.Status.Certificate, now) {
		return true
	}
	if open(csr) && condition(csr, certificates.CertificateFailed) == nil {
		return now.Sub(csr.CreationTimestamp.Time) > keepPending
	}
	for _, t := range []certificates.RequestConditionType{certificates.CertificateDenied,
		certificates.CertificateFailed} {
		if c := condition(csr, t); c != nil && now.Sub(c.LastUpdateTime.Time) > keepDecided {
			return true
		}
	}
	approved := condition(csr, certificates.CertificateApproved)
	return approved != nil && len(csr.Status.Certificate) > 0 && now.Sub(approved.LastUpdateTime.Time) > keepDecided
}

func expired(certificate []byte, now time.Time) bool {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return false
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.After(parsed.NotAfter)
}

// Cleaner deletes stale requests.
type Cleaner struct {
	env    runner.Env
	csrs   certlisters.CertificateSigningRequestLister
	synced cache.InformerSynced
}

// NewCleaner makes the controller; it starts working with Run.
func NewCleaner(env runner.Env) (*Cleaner, error) {
	csrs := env.Informers.Certificates().V1().CertificateSigningRequests()
	return &Cleaner{env: env, csrs: csrs.Lister(), synced: csrs.Informer().HasSynced}, nil
}

// Run works until ctx ends.
func (c *Cleaner) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return ctx.Err()
	}
	runner.Every(ctx, c.env.Clock, cleaning, c.clean)
	return ctx.Err()
}

func (c *Cleaner) clean(ctx context.Context) {
	all, err := c.csrs.List(labels.Everything())
	if err != nil {
		return
	}
	for _, csr := range all {
		if !stale(csr, c.env.Clock.Now()) {
			continue
		}
		err := c.env.Client.CertificatesV1().CertificateSigningRequests().Delete(ctx, csr.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(csr.UID)),
		})
		if runner.IgnoreGone(err) != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Stale certificate signing request not deleted, will be tried again", "csr",
				csr.Name, "err", err)
		}
	}
}
