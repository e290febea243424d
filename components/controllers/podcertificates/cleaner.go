// Package podcertificates deletes PodCertificateRequests that had their time: signers answer within minutes, or
// kubelets ask again (KEP-4317).
package podcertificates

import (
	"context"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	certlisters "k8s.io/client-go/listers/certificates/v1beta1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/runner"
)

// Upstream's times: how often requests are looked at, and how old they get.
const (
	cleaning = 5 * time.Minute
	keep     = 15 * time.Minute
)

// Cleaner deletes old requests, answered or not.
type Cleaner struct {
	env      runner.Env
	requests certlisters.PodCertificateRequestLister
	synced   cache.InformerSynced
}

// NewCleaner makes the controller; it starts working with Run.
func NewCleaner(env runner.Env) (*Cleaner, error) {
	requests := env.Informers.Certificates().V1beta1().PodCertificateRequests()
	return &Cleaner{env: env, requests: requests.Lister(), synced: requests.Informer().HasSynced}, nil
}

// Run works until ctx ends.
func (c *Cleaner) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return ctx.Err()
	}
	runner.Every(ctx, c.env.Clock, cleaning, c.clean)
	return ctx.Err()
}

// old are the requests that are to go.
func old(all []*certificatesv1beta1.PodCertificateRequest, now time.Time) []*certificatesv1beta1.PodCertificateRequest {
	var out []*certificatesv1beta1.PodCertificateRequest
	for _, r := range all {
		if !now.Before(r.CreationTimestamp.Add(keep)) {
			out = append(out, r)
		}
	}
	return out
}

func (c *Cleaner) clean(ctx context.Context) {
	all, err := c.requests.List(labels.Everything())
	if err != nil {
		return
	}
	for _, r := range old(all, c.env.Clock.Now()) {
		err := c.env.Client.CertificatesV1beta1().PodCertificateRequests(r.Namespace).Delete(ctx, r.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(r.UID))})
		if runner.IgnoreGone(err) != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Old pod certificate request not deleted, will be tried again", "request",
				klog.KObj(r), "err", err)
		}
	}
}
